#!/bin/sh
# install.sh PYTHON WHAT...: install with pip, and show a line for each package. With --quiet the
# first install would be silent for minutes; as pip is, it prints hundreds of lines.
set -u
python=$1
shift
log=$(mktemp)
trap 'rm -f "$log" "$log.code"' EXIT INT TERM
live=0
[ -t 1 ] && live=1
{ "$python" -m pip install --disable-pip-version-check "$@" 2>&1; echo $? >"$log.code"; } |
    tee "$log" |
    awk -v live="$live" '
        /^Collecting /  { found++; show("  " found " packages found, now " $2) }
        /^Downloading / { show("  downloading " $2) }
        /^Installing collected / { show("  installing " found " packages") }
        function show(text) {
            if (live) { printf "\r\033[K%s", substr(text, 1, 78) } else { print text }
            fflush()
        }
        END { if (live) printf "\r\033[K" }
    '
code=$(cat "$log.code")
[ "$code" = 0 ] || { echo "pip could not install $*:" >&2; tail -n 20 "$log" >&2; }
exit "$code"
