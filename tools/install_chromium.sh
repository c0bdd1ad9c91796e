#!/bin/sh
# Debian's Chromium for the tests in a browser, where one is missing and may be installed.
set -u
if command -v "${CHROMIUM:-chromium}" >/dev/null; then
    exit 0
fi
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    echo "installing chromium"
    export DEBIAN_FRONTEND=noninteractive
    { apt-get install -qq --yes --no-install-recommends chromium ||
        { apt-get update -qq &&
            apt-get install -qq --yes --no-install-recommends chromium; }; } >/dev/null 2>&1
fi
command -v chromium >/dev/null || {
    echo "no browser found, and none could be installed: apt install chromium, or set CHROMIUM" >&2
    exit 1
}
