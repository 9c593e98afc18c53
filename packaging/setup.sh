#!/usr/bin/env bash
# Sets up what `make run`, `make test` and `make bundle` need: packages of the system, .venv, packages of Python.
#
#   packaging/setup.sh run|test|bundle
#
# System packages are installed only where they are missing, and only by root or with a sudo that asks for nothing
# (never with SYSTEM_PACKAGES=no); else the command is printed. Python's are installed again only after a change of
# pyproject.toml or constraints.txt.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

profile=${1:?"expected run, test or bundle"}
readonly log=build/setup.log
as_root=()
bin=.venv/bin
[[ ${OS:-} != Windows_NT ]] || bin=.venv/Scripts
lacking=() # of the packages asked for, those that could not be installed

say() { printf 'setup: %s\n' "$*" >&2; }

fail() {
  say "$*"
  exit 1
}

find_python() { # the first that is new enough; each is run, since a name alone may be an empty shim
  local name
  for name in python3.11 python3.12 python3.13 python3.14 python3 python; do
    if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$name"
      return
    fi
  done
  return 1
}

can_install() {
  command -v apt-get >/dev/null && [[ ${SYSTEM_PACKAGES:-yes} != no ]] || return 1
  if [[ $(id -u) == 0 ]]; then
    as_root=(env)
  elif sudo -n true 2>/dev/null; then
    as_root=(sudo -n env)
  else
    return 1
  fi
}

apt() {
  "${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 "$@" </dev/null >>"$log" 2>&1
}

install() { # what cannot be installed lies in `lacking` afterwards, and the command is printed
  lacking=("$@")
  (($# == 0)) && return
  if can_install; then
    say "installing $*"
    # The lists of packages are fetched only where the ones at hand do not do.
    if apt install -y --no-install-recommends "$@" || { apt update && apt install -y --no-install-recommends "$@"; }; then
      lacking=()
      return
    fi
    say "apt-get failed; its answer is in $log"
  fi
  if command -v apt-get >/dev/null; then
    say "missing here; to install: sudo apt-get install --no-install-recommends $*"
  else
    say "missing here (named as in Debian): $*"
  fi
}

has() { command -v "$1" >/dev/null || [[ -x /usr/sbin/$1 ]]; }

has_library() { # looks where Python will look
  "$python" -c 'import ctypes.util, sys; sys.exit(not ctypes.util.find_library(sys.argv[1]))' "$1"
}

has_headers() {
  [[ -f $("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h ]]
}

has_venv() { "$python" -c 'import ensurepip, venv' 2>/dev/null; }

can_compile() { has gcc && has_headers && [[ -f /usr/include/linux/input.h ]]; }

# --- Python itself

mkdir -p build
: >"$log"
python=$(find_python) || {
  for name in python3 python3.11; do # the second for Ubuntu 22.04, whose own is 3.10
    has "$name" || install "$name" "$name-venv"
    python=$(find_python) && break
    has "$name" || break # not even this one: no more advice
  done
  [[ -n $python ]] || fail "Python 3.11 or newer is needed"
}
# Debian names the parts after the version, and `python3-…` belongs to the system's own.
version=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
[[ $(readlink -f /usr/bin/python3) == */"$version" ]] && version=python3
if [[ ! -x $bin/python ]] && ! has_venv; then
  install "$version-venv" # venv and the pip inside it
  has_venv || fail "$python has no venv module, which is needed"
fi

# --- Packages of the system, none of which stops the set-up

packages=()
if [[ $(uname -s) == Linux ]]; then
  # evdev, which pynput asks for, has no wheel and is compiled.
  has gcc || packages+=(gcc)
  has_headers || packages+=("$version-dev")
  [[ -f /usr/include/linux/input.h ]] || packages+=(libc6-dev)
  # sounddevice records through it; and most desktops' sound server is reached by way of ALSA.
  has_library portaudio || packages+=(libportaudio2)
  compgen -G '/usr/lib*/*/alsa-lib/libasound_module_pcm_pulse.so' >/dev/null ||
    compgen -G '/usr/lib*/alsa-lib/libasound_module_pcm_pulse.so' >/dev/null || packages+=(libasound2-plugins)
  if [[ $profile != run || -n ${DISPLAY:-}${WAYLAND_DISPLAY:-} ]]; then
    # What Qt's wheel leaves to the system, for windows and the tray: library:package.
    for pair in EGL:libegl1 GL:libgl1 dbus-1:libdbus-1-3 fontconfig:libfontconfig1 xkbcommon:libxkbcommon0 \
      xkbcommon-x11:libxkbcommon-x11-0 xcb-cursor:libxcb-cursor0 xcb-icccm:libxcb-icccm4 xcb-image:libxcb-image0 \
      xcb-keysyms:libxcb-keysyms1 xcb-render-util:libxcb-render-util0 xcb-xkb:libxcb-xkb1; do
      has_library "${pair%:*}" || packages+=("${pair#*:}")
    done
  fi
  if [[ $profile != run ]]; then
    has objcopy || packages+=(binutils) # PyInstaller puts programs together with it
    has xz || packages+=(xz-utils)      # packs the folder for any Linux
    has makensis || packages+=(nsis)    # makes the installer for Windows
    [[ -z ${WINDOWS_CERTIFICATE:-} ]] || has osslsigncode || packages+=(osslsigncode) # signs it
  fi
  if [[ $profile == test ]]; then
    has strace || packages+=(strace)                               # sees every connection that a program makes
    has Xvfb || packages+=(xvfb)                                   # a screen for keys and windows
    has xauth || packages+=(xauth)                                 # xvfb-run asks for it
    has xprop || packages+=(x11-utils)                             # reads windows back
    has xdotool || packages+=(xdotool)                             # presses keys
    has openbox || packages+=(openbox)                             # gives windows the focus
    has tint2 || packages+=(tint2)                                 # a panel with a tray
    has dbus-daemon || packages+=(dbus)                            # a tray of the newer kind
    has pulseaudio || packages+=(pulseaudio)                       # a microphone that plays what a test gives it
    has pactl || packages+=(pulseaudio-utils)                      # sets that microphone up
    has espeak-ng || packages+=(espeak-ng)                         # a voice to hear
    has sox || packages+=(sox)                                     # noise to tell it from
    has desktop-file-validate || packages+=(desktop-file-utils)    # checks the entry in the menu of programs
    has appstreamcli || packages+=(appstream)                      # checks what a software center shows
    has boinc || packages+=(boinc-client)                          # background work on a card, to take off it
  fi
fi
install ${packages[@]+"${packages[@]}"}
((${#lacking[@]} == 0)) || say "going on without: what needs them says so, and its tests are skipped"

# --- Packages of Python

[[ $profile != bundle ]] || profile=run # the bundle's own come from its lock
extras=
evdev=yes
[[ $(uname -s) != Linux ]] || can_compile || evdev=no
if [[ $profile == test ]]; then
  extras=dev
  [[ $(uname -sm) != "Linux x86_64" ]] || extras=dev,real-server # nowhere else are there wheels of it
fi

# All that the outcome depends on; the scripts in .venv hold the path of this folder.
state="$(cat pyproject.toml constraints.txt | cksum) $evdev $PWD"
has_stamp() { [[ -f .venv/.stamp-$1 && $(<".venv/.stamp-$1") == "$state" ]]; }

pip() { "$bin/python" -m pip --disable-pip-version-check -q "$@"; }

install_packages() {
  if [[ $evdev == yes ]]; then
    pip install -c constraints.txt -e ".${1:+[$1]}"
  else
    # pip cannot leave one package out, but constraints.txt lists them all.
    grep -vE "^(cyclonedx-python-lib|evdev|pyinstaller)==$([[ $1 == *real-server* ]] || printf '|^(gguf|xllamacpp)==')" constraints.txt >build/packages.txt
    pip install --no-deps -r build/packages.txt && pip install --no-deps -e .
  fi
}

if ! "$bin/python" -c 'import pip' 2>/dev/null; then
  say "making .venv with $("$python" --version)"
  "$python" -m venv --clear .venv
fi
if has_stamp "$profile" || has_stamp test; then # whoever can test can run
  :
else
  say "installing packages of Python"
  [[ $evdev == yes ]] || say "evdev cannot be compiled here and is left out: keys are read through X only"
  if install_packages "$extras"; then
    printf '%s' "$state" >".venv/.stamp-$profile"
  elif [[ $extras == *real-server ]] && install_packages dev; then # no stamp: tried again next time
    say "the real llama.cpp server could not be installed: its tests are skipped"
  else
    fail "pip failed"
  fi
fi
[[ $extras != dev ]] || say "no wheel of the real llama.cpp server fits $(uname -sm): its tests are skipped"
