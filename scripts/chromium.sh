#!/usr/bin/env bash
# Print the path of a Chromium that runs, installing one where there is none.
# Progress goes to standard error; standard output is the path alone.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "browser: $*" >&2; }

# A snap's placeholder has the right name and does not run, so each candidate is asked.
runs() { timeout 30 "$1" --version >/dev/null 2>&1; }

find_chromium() {
    local name path
    for name in chromium chromium-browser google-chrome; do
        if path=$(command -v "$name") && runs "$path"; then
            echo "$path"
            return
        fi
    done
    path=$(.venv/bin/python -c '
from playwright.sync_api import sync_playwright
with sync_playwright() as playwright:
    print(playwright.chromium.executable_path)')
    if [ -x "$path" ] && runs "$path"; then echo "$path"; fi
}

if [ -n "${WORKBENCH_CHROMIUM:-}" ]; then
    if ! runs "$WORKBENCH_CHROMIUM"; then
        say "WORKBENCH_CHROMIUM=$WORKBENCH_CHROMIUM does not run. Give the path of a Chromium," \
            "or unset it to let one be found."
        exit 1
    fi
    echo "$WORKBENCH_CHROMIUM"
    exit
fi

found=$(find_chromium)
if [ -z "$found" ] && command -v apt-get >/dev/null; then
    as_root=()
    if [ "$(id -u)" != 0 ]; then as_root=(sudo -n); fi
    if [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; then
        say "no Chromium found: installing Debian's with apt-get"
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq update >&2 &&
            "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
                apt-get -qq install --yes --no-install-recommends chromium >&2 ||
            say "apt-get could not install it"
        found=$(find_chromium)
    fi
fi
if [ -z "$found" ]; then
    say "no Chromium found: trying playwright's own"
    .venv/bin/playwright install chromium >&2 || say "playwright could not install it"
    found=$(find_chromium)
fi
if [ -z "$found" ]; then
    say "the browser tests need a Chromium, and none could be installed. Install one (on Debian," \
        "as root: apt-get install chromium) or give its path: WORKBENCH_CHROMIUM=/path make test"
    exit 1
fi
echo "$found"
