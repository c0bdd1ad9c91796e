#!/bin/sh
# Debian's Chromium for the tests in a browser, where one is missing and may be installed.
set -u

found() { command -v "${CHROMIUM:-chromium}" >/dev/null; }

install() { apt-get install -qq --yes --no-install-recommends chromium >/dev/null 2>&1; }

if ! found && [ -z "${CHROMIUM:-}" ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    echo "chromium: being installed"
    export DEBIAN_FRONTEND=noninteractive
    # The lists of packages are fetched only where they are missing or too old.
    install || { apt-get update -qq >/dev/null 2>&1 && install; }
fi
found || {
    echo "no browser found, and none could be installed: apt install chromium, or set CHROMIUM" >&2
    exit 1
}
