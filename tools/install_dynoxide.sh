#!/bin/sh
# Install dynoxide, the DynamoDB that the tests and benchmarks run beside moto, into .dynoxide/.
# Without npm the tests go on with the engines that are there.
set -eu

version=1.2.1
root=$(cd "$(dirname "$0")/.." && pwd)
folder="$root/.dynoxide"
installed="$folder/node_modules/@dynoxide/linux-x64/package.json"

if [ "$(uname -s)-$(uname -m)" != "Linux-x86_64" ]; then
    echo "dynoxide: the pinned build is for Linux on x86-64; set DYNOXIDE_BINARY to use another"
    exit 0
fi
if grep -q "\"version\": \"$version\"" "$installed" 2>/dev/null; then
    exit 0
fi
if ! command -v npm >/dev/null 2>&1; then
    echo "dynoxide: npm is not installed, so the tests run without dynoxide"
    exit 0
fi
mkdir -p "$folder"
if npm install --prefix "$folder" --no-save --no-audit --no-fund "@dynoxide/linux-x64@$version"; then
    echo "dynoxide: version $version is in $folder"
else
    echo "dynoxide: npm could not install it, so the tests run without dynoxide"
fi
