# setup.sh - installs what a build needs and builds; sourced by ../onnxtrain and ../tests/run.
#
# The caller sets root (this source tree, absolute). Everything is said on stderr.

# What the program is built from. A word here and a line in OtDependencies.cmake per library.
ot_build_packages='gcc libc6-dev cmake ninja-build protobuf-c-compiler libprotobuf-c-dev libdnnl-dev
    zlib1g-dev libjansson-dev libinih-dev librandom123-dev
    libjpeg-dev libspng-dev libwebp-dev libtiff-dev libopenjp2-7-dev libutf8proc-dev
    libcairo2-dev libzstd-dev libsndfile1-dev libcurl4-openssl-dev libssl-dev'

ot_say() { printf '%s\n' "onnxtrain: $*" >&2; }

# ot_quietly LOG COMMAND...: output goes to LOG, which is shown when the command fails.
ot_quietly() {
    ot_log=$1
    shift
    "$@" >>"$ot_log" 2>&1 && return 0
    ot_code=$?
    tail -n 40 "$ot_log" >&2
    ot_say "failed ($ot_code): $*"
    return 1
}

# ot_missing PACKAGES...: prints those that are not installed.
ot_missing() {
    for ot_p in "$@"; do
        case $(dpkg-query -W -f='${Status}' "$ot_p" 2>/dev/null) in
        'install ok installed') ;;
        *) printf '%s ' "$ot_p" ;;
        esac
    done
}

# ot_install PACKAGES...: installs the missing ones. 1: could not.
ot_install() {
    command -v dpkg-query >/dev/null 2>&1 || return 0 # not a Debian: CMake names what is missing
    ot_list=$(ot_missing "$@")
    [ -n "$ot_list" ] || return 0
    ot_say "installing $ot_list"
    if [ "$(id -u)" = 0 ]; then
        ot_root=env
    elif command -v sudo >/dev/null 2>&1; then
        ot_root='sudo env'
    else
        ot_say "needs root or sudo. As root: apt-get install $ot_list"
        return 1
    fi
    ot_apt_log=$(mktemp) || return 1
    ot_apt="$ot_root DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 apt-get -q -y -o DPkg::Lock::Timeout=300"
    # The package lists may be absent or old: try, refresh, try again.
    $ot_apt install --no-install-recommends $ot_list >"$ot_apt_log" 2>&1 ||
        { $ot_apt update >>"$ot_apt_log" 2>&1 &&
            $ot_apt install --no-install-recommends $ot_list >>"$ot_apt_log" 2>&1; }
    ot_code=$?
    if [ $ot_code != 0 ]; then
        tail -n 20 "$ot_apt_log" >&2
        ot_say "apt-get could not install: $ot_list"
    fi
    rm -f "$ot_apt_log"
    return $ot_code
}

# ot_configure FOLDER ARGS...: CMake with Ninja; a folder made for another place starts anew.
ot_configure() {
    ot_dir=$1
    shift
    mkdir -p "$ot_dir" || return 1
    if [ -f "$ot_dir/CMakeCache.txt" ] &&
        ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$ot_dir/CMakeCache.txt"; then
        rm -rf "$ot_dir/CMakeCache.txt" "$ot_dir/CMakeFiles" "$ot_dir/.made"
    fi
    ot_generator=
    if [ ! -f "$ot_dir/CMakeCache.txt" ] && command -v ninja >/dev/null 2>&1; then
        ot_generator='-G Ninja'
    fi
    : >"$ot_dir/setup.log" || return 1
    ot_quietly "$ot_dir/setup.log" cmake $ot_generator -S "$root" -B "$ot_dir" "$@"
}

# ot_compile FOLDER TARGETS...
ot_compile() {
    ot_dir=$1
    shift
    ot_quietly "$ot_dir/setup.log" cmake --build "$ot_dir" --parallel "${jobs:-$(nproc)}" --target "$@"
}
