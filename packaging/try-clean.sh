#!/usr/bin/env bash
# Tries the packages as a new user would, in a clean Debian of its own: installs, runs and removes the .deb, then unpacks
# the tarball and starts it. Says how large, how long, and what is left.
#
#   packaging/try-clean.sh [OUT]      OUT: where the packages lie; else dist/
#
# Wants root, debootstrap, Xvfb, openbox, tint2 and xdotool; keeps the clean Debian in build/clean for the next time.
set -euo pipefail
[[ $(id -u) == 0 ]] || { echo 'try: wants root' >&2 && exit 1; }
# What is mounted here is seen by nobody else, and ends with this script, whatever ends it.
[[ ${TRY_ALONE:-} == yes ]] || TRY_ALONE=yes exec unshare --mount "$0" "$@"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly out=${1:-dist} clean=build/clean root=build/try
deb=$(ls "$out"/zat-scs_*_amd64.deb)
tarball=$(ls "$out"/zat-scs-*-linux-x86_64.tar.xz)
started=()

say() { printf '%-46s %s\n' "$1" "$2"; }

fail() {
  printf 'try: %s\n' "$*" >&2
  exit 1
}

cleanup() {
  local pid
  for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
}
trap cleanup EXIT

now() { date +%s.%N; }

since() { awk -v now="$(now)" -v then="$1" 'BEGIN { printf "%.1f s", now - then }'; }

inside() { # as a user that has nothing yet
  chroot --userspec=1000:1000 "$root" /usr/bin/env -i HOME=/tmp/home PATH=/usr/bin:/bin LANG=C.UTF-8 "$@"
}

listing() { # of all files beside the lists and logs of the package tools, and folders of the system's own
  (cd "$root" && find . -xdev \( -path ./proc -o -path ./dev -o -path ./tmp -o -path ./var/cache -o -path ./var/log \
    -o -path ./var/lib/apt -o -path ./var/lib/dpkg \) -prune -o -print | sort)
}

icon_shown() { # tells whether the panel shows an icon of ours
  xdotool search --all --class '^zat-scs$' 2>/dev/null | grep -q .
}

until_icon() { # PROGRAM: seconds from start to icon
  local begun pid
  begun=$(now)
  inside DISPLAY="$DISPLAY" "$@" --autostart --set MICROPHONE=off >"$root.log" 2>&1 &
  pid=$!
  started+=("$pid")
  for _ in $(seq 600); do
    if icon_shown; then
      say "seconds to icon ($1)" "$(since "$begun")"
      return
    fi
    kill -0 "$pid" 2>/dev/null || fail "the tray ended: $(cat "$root.log")"
    sleep 0.1
  done
  fail "no icon in a minute: $(cat "$root.log")"
}

# --- A clean Debian, with the archive of this one

for tool in debootstrap Xvfb openbox tint2 xdotool; do
  command -v "$tool" >/dev/null || [[ -x /usr/sbin/$tool ]] || fail "not installed here: $tool"
done
if [[ ! -d $clean/usr ]]; then
  rm -rf "$clean"
  debootstrap --variant=minbase bookworm "$clean" >build/debootstrap.log 2>&1 || fail "see build/debootstrap.log"
fi
rm -rf --one-file-system "$root"
cp -a "$clean" "$root"
cp /etc/resolv.conf "$root/etc/" 2>/dev/null || true
for setting in /etc/apt/apt.conf.d/*prox*; do [[ -e $setting ]] && cp "$setting" "$root/etc/apt/apt.conf.d/"; done
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
echo 'somebody:x:1000:1000::/tmp/home:/bin/sh' >>"$root/etc/passwd"
mkdir -p "$root/tmp/.X11-unix" "$root/tmp/home"
chown 1000:1000 "$root/tmp/home"

# --- A screen with a panel, outside

display_file=$(mktemp)
Xvfb -displayfd 4 -screen 0 800x600x24 -nolisten tcp -noreset 4>"$display_file" 2>/dev/null &
started+=("$!")
for _ in $(seq 100); do
  [[ ! -s $display_file ]] || break
  sleep 0.1
done
DISPLAY=":$(tr -d '\n' <"$display_file")"
export DISPLAY
rm "$display_file"
mount --bind /tmp/.X11-unix "$root/tmp/.X11-unix"
openbox >/dev/null 2>&1 &
started+=("$!")
tint2 >/dev/null 2>&1 &
started+=("$!")

# --- The package

say "package" "$(du -h --apparent-size "$deb" | cut -f1)"
cp "$deb" "$root/tmp/zat-scs.deb"
chroot "$root" apt-get -qq update
chroot "$root" apt-get -qq -y --no-install-recommends install media-types >/dev/null 2>&1 # a user's, to compare with
listing >build/before.txt
begun=$(now)
chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install /tmp/zat-scs.deb \
  >build/install.log 2>&1 || fail "see build/install.log"
say "apt install, with $(grep -c '^Setting up' build/install.log) packages" "$(since "$begun")"
say "installed" "$(chroot "$root" du -sh /usr/lib/zat-scs | cut -f1)"
say "zat-scs --version" "$(inside zat-scs --version)"
begun=$(now)
inside zat-scs demo >build/demo.log 2>&1 || fail "demo: $(tail -3 build/demo.log)"
say "zat-scs demo" "$(since "$begun"): $(tail -1 build/demo.log)"
inside zat-scs doctor --json >build/doctor.json
say "zat-scs doctor --json" "$(wc -c <build/doctor.json) bytes"
until_icon zat-scs
begun=$(now)
chroot "$root" apt-get -qq -y purge zat-scs >build/remove.log 2>&1 || fail "see build/remove.log"
say "apt purge, with the tray running" "$(since "$begun")"
icon_shown && fail "the tray still runs"
chroot "$root" apt-get -qq -y autoremove >>build/remove.log 2>&1
listing >build/after.txt
say "files left of it" "$(comm -13 build/before.txt build/after.txt | grep -c zat-scs || true)"
comm -13 build/before.txt build/after.txt >build/left.txt
say "files left of the libraries that it brought" "$(wc -l <build/left.txt) (build/left.txt)"

# --- The packed folder

say "tarball" "$(du -h --apparent-size "$tarball" | cut -f1)"
begun=$(now)
tar -xf "$tarball" -C "$root/tmp/home" --no-same-owner
say "unpacked" "$(since "$begun")"
folder=$(basename "$root"/tmp/home/zat-scs-*)
say "its zat-scs --version" "$(inside "/tmp/home/$folder/zat-scs" --version)"
missing=$(inside DISPLAY="$DISPLAY" "/tmp/home/$folder/zat-scs" 2>&1 || true)
say "its tray on a Debian without a desktop" "${missing#zat-scs: no tray: }"
chroot "$root" apt-get -qq -y --no-install-recommends install libegl1 libgl1 libxcb1 libdbus-1-3 libfontconfig1 \
  libfreetype6 libasound2 >/dev/null 2>&1
until_icon "/tmp/home/$folder/zat-scs"
inside "/tmp/home/$folder/zat-scs" quit
if icon_shown; then fail "quit did not end the tray"; fi
say "zat-scs quit" "ended it"
