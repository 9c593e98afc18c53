#!/usr/bin/env bash
# Signs programs and installers for Windows, on Linux.
#
#   WINDOWS_CERTIFICATE=FILE.pfx packaging/sign.sh FILE...
#
# WINDOWS_CERTIFICATE           the certificate and its key: a PKCS #12 file, or one in Base64, as CI keeps secrets
# WINDOWS_CERTIFICATE_PASSWORD  its password; none: empty
# WINDOWS_TIMESTAMP_URL         who bears witness of the time (RFC 3161), so that it counts after the certificate ends
set -euo pipefail

fail() {
  printf 'sign: %s\n' "$*" >&2
  exit 1
}

[[ -n ${WINDOWS_CERTIFICATE:-} ]] || fail "WINDOWS_CERTIFICATE is not set"
command -v osslsigncode >/dev/null || fail "osslsigncode is not installed (the package of that name in Debian)"

work=$(mktemp -d) # for this user alone
trap 'rm -rf "$work"' EXIT
umask 077
if [[ -f $WINDOWS_CERTIFICATE ]]; then
  cp "$WINDOWS_CERTIFICATE" "$work/certificate.pfx"
else
  base64 --decode >"$work/certificate.pfx" <<<"$WINDOWS_CERTIFICATE" 2>/dev/null ||
    fail "WINDOWS_CERTIFICATE is neither a file nor Base64"
fi
printf '%s' "${WINDOWS_CERTIFICATE_PASSWORD:-}" >"$work/password" # a file: command lines can be read by others

stamp=()
[[ -z ${WINDOWS_TIMESTAMP_URL:-} ]] || stamp=(-ts "$WINDOWS_TIMESTAMP_URL")
for file; do
  osslsigncode sign -pkcs12 "$work/certificate.pfx" -readpass "$work/password" -h sha256 -n ZAT-SCS \
    ${stamp[@]+"${stamp[@]}"} -in "$file" -out "$work/signed" >"$work/log" 2>&1 ||
    fail "$file: $(tail -n 1 "$work/log")"
  cat "$work/signed" >"$file" # keeps the mode
  rm "$work/signed"
done
