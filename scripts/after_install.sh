#!/usr/bin/env bash
# What is left to do after `make install` until programs find the libraries: after_install.sh LIBDIR BINDIR. Nothing is changed.
set -u
libdir=$1 bindir=$2
[ -z "${DESTDIR:-}" ] || exit 0 # an image of another system
PATH=$PATH:/sbin:/usr/sbin

say() { printf '  next: %s\n' "$1"; }

in_list() { case ":$2:" in *":$1:"*) return 0 ;; *) return 1 ;; esac; }

# Folders that the dynamic linker searches by itself: those of its cache.
by_linker() {
  command -v ldconfig >/dev/null && ldconfig -v -N -X 2>/dev/null | grep -qE "^$1(:| \()"
}

if in_list "$libdir" "${LD_LIBRARY_PATH:-}"; then :
elif by_linker "$libdir"; then
  ldconfig -p 2>/dev/null | grep -q " $libdir/libannblock\.so" || say "sudo ldconfig    # so that programs find the libraries"
else
  say "export LD_LIBRARY_PATH=$libdir\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}    # so that programs find the libraries"
fi
${PKG_CONFIG:-pkg-config} --exists annblock 2>/dev/null ||
  say "export PKG_CONFIG_PATH=$libdir/pkgconfig\${PKG_CONFIG_PATH:+:\$PKG_CONFIG_PATH}    # so that pkg-config finds annblock"
in_list "$bindir" "$PATH" || say "export PATH=$bindir:\$PATH    # so that the shell finds annblock"
exit 0
