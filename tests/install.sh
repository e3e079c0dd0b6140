#!/usr/bin/env bash
# Install the Python package as its users do, and run README.md's examples with it: install.sh FOLDER
# From the checkout, the source distribution and the wheel, one over the other, in a new environment in FOLDER.
set -eu
cd "$(dirname "$0")/.."
folder=$1
python=$folder/env/bin/python
rm -rf "$folder"
"${PYTHON:-python3}" -m venv "$folder/env"
"$python" -m pip install -qq --requirement tests/requirements-torch.txt # torch in its pinned build
"$python" -m pip install -qq '.[torch,anndata]' build

tried=0
try() { # what was installed
  local at
  at=$(cd "$folder" && env/bin/python -c 'import annblock; print(annblock.__file__)')
  case $at in *env/lib/*/site-packages/annblock/__init__.py) ;; *) echo "install.sh: imported from $at" >&2; exit 1 ;; esac
  "$python" python/tests/readme.py
  tried=$((tried + 1))
  echo "ok    installed from $1"
}
try "the checkout"
"$python" -m build -o "$folder/dist" . >"$folder/build.log" 2>&1 || { tail -n 40 "$folder/build.log" >&2; exit 1; }
for what in .tar.gz .whl; do
  "$python" -m pip uninstall -qq -y annblock
  "$python" -m pip install -qq --no-deps "$folder"/dist/annblock-*"$what"
  try "$(basename "$folder"/dist/annblock-*"$what")"
done
echo "$tried passed, 0 failed"
