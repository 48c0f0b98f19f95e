#!/bin/sh
# Runs the engine's tests under AddressSanitizer and UndefinedBehaviorSanitizer, with two builds: the
# usual one, and one with pages and buckets of four entries and with prefetching for trees of any
# size, so that the same tests cover deep trees and large directories.
# Builds in a temporary folder, and exits with 1 at the first report of a sanitizer. Needs gcc and
# the development environment, whose interpreter is PYTHON (default: .venv/bin/python).
set -eu

cd "$(dirname "$0")/.."
python=$(realpath -s "${PYTHON:-.venv/bin/python}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

sanitizers="-fsanitize=address,undefined -fno-sanitize-recover=all"
preloaded="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)"

# check NAME FLAGS [PYTEST OPTIONS]
check() {
    name=$1 flags=$2
    shift 2
    echo "== $name"
    mkdir "$work/$name"
    cp -r pyproject.toml setup.py LICENSE ./*.md src tests "$work/$name"
    cd "$work/$name"
    find src -name '*.so' -delete
    find src -path '*/engine/*.c' -delete
    CFLAGS="-g -O1 -fno-omit-frame-pointer $sanitizers $flags" LDFLAGS="$sanitizers" \
        "$python" -m pip install -q --no-build-isolation --no-deps --target "$work/$name/site" .
    LD_PRELOAD="$preloaded" PYTHONMALLOC=malloc PYTHONPATH="$work/$name/site" \
        ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
        "$python" -m pytest -p no:cacheprovider --capture=sys tests/engine \
        --ignore tests/engine/test_stubs.py "$@"
    cd - > /dev/null
}

check as-used ""
check tiny-pages "-DLAURELS_LEAF_MOST=4 -DLAURELS_BRANCH_MOST=4 -DLAURELS_BUCKET_MOST=4 \
    -DLAURELS_LARGE=0" \
    --ignore tests/engine/test_size.py
echo "no report"
