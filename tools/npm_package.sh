# For the scripts that install an engine for the tests from npm; read by them, not run.

# npm_package NAME FOLDER PACKAGE VERSION: install a package into a folder of the checkout, unless it is
# there. Without npm the tests go on with the engines that are there.
npm_package() {
    name=$1 folder="$(cd "$(dirname "$0")/.." && pwd)/$2" package=$3 version=$4
    if grep -q "\"version\": \"$version\"" "$folder/node_modules/$package/package.json" 2>/dev/null; then
        return
    fi
    if ! command -v npm >/dev/null 2>&1; then
        echo "$name: npm is not installed, so the tests run without it"
        return
    fi
    mkdir -p "$folder"
    if npm install --prefix "$folder" --no-save --no-audit --no-fund "$package@$version"; then
        echo "$name: version $version of $package is in $folder"
    else
        echo "$name: npm could not install it, so the tests run without it"
    fi
}
