#!/bin/sh
# Install dynoxide, the DynamoDB that the tests and benchmarks run beside moto, into .dynoxide/.
set -eu
. "$(dirname "$0")/npm_package.sh"

if [ "$(uname -s)-$(uname -m)" != "Linux-x86_64" ]; then
    echo "dynoxide: the pinned build is for Linux on x86-64; set DYNOXIDE_BINARY to use another"
    exit 0
fi
npm_package dynoxide .dynoxide @dynoxide/linux-x64 1.2.1
