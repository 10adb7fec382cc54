# shellcheck shell=bash
# Installs the Debian packages and the Rust toolchain that ./weir and ./test need to build. Sourced, not run.
# It announces every installation and build on standard error; if nothing is to be done, it is silent and costs a few file
# look-ups.
#
# In:  $here, the folder of the checkout.
# Out: $target, the build folder; build, which runs a command as the building user, in the checkout.

: "${here:?}"
oldest_rust=93 # 1.93; rust-version in Cargo.toml says the same
PATH=$PATH:/usr/sbin:/sbin # nft and runuser; plain users often lack these

say() { printf 'weir: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}

# Whether a program or header is installed.
have() {
    case $1 in
    /*) [ -e "$1" ] ;;
    *) command -v "$1" >/dev/null ;;
    esac
}

# need PROBE=PACKAGE...: installs the packages whose probe is missing.
need() {
    local missing=() pair
    for pair in "$@"; do
        have "${pair%%=*}" || missing+=("${pair#*=}")
    done
    [ ${#missing[@]} -eq 0 ] || install "${missing[@]}"
}

# Without removing packages: one mail server would replace another.
install() {
    local command="apt-get update && apt-get install -y --no-remove --no-install-recommends $*"
    have apt-get || die "missing Debian packages, or the same for this distribution: $*"
    local as_root=()
    if [ "$EUID" -ne 0 ]; then
        have sudo || die "packages are missing. As root, run: $command"
        as_root=(sudo)
    fi
    say "installing packages${as_root[*]:+ with sudo}: $*"
    local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300) log
    log=$(mktemp)
    if ! { "${apt[@]}" update && "${apt[@]}" install -y --no-remove --no-install-recommends "$@"; } >"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        die "the installation failed, see above. As root, run: $command"
    fi
    rm -f "$log"
}

# Installs a package whose services stay off, also after reboot.
install_off() {
    local package=$1 policy=/usr/sbin/policy-rc.d mark='# weir: no service starts while it installs a package' as_root=()
    shift
    [ "$EUID" -eq 0 ] || as_root=(sudo)
    # In a subshell, whose end removes the policy, so that services of other packages start again, also after Ctrl-C.
    # The policy of a killed one is recognised by its mark.
    (
        if have apt-get && { [ ! -e "$policy" ] || grep -qxF "$mark" "$policy"; }; then
            # shellcheck disable=SC2064 # expanded now
            trap "${as_root[*]} rm -f '$policy'" EXIT
            trap 'exit 130' INT TERM HUP
            printf '#!/bin/sh\n%s\nexit 101\n' "$mark" | "${as_root[@]}" tee "$policy" >/dev/null
            "${as_root[@]}" chmod 755 "$policy"
        fi
        install "$package"
    ) || exit
    # Without systemd there is nothing to disable: the policy prevented the start.
    ! have systemctl || "${as_root[@]}" systemctl --quiet disable --now "$@" >/dev/null 2>&1 || true
}

# need_peers FILE: other programs, one per line: program, package, services that stay off. Programs that cannot be installed, and
# those without a Debian package (cargo:NAME), are skipped.
need_peers() {
    local program package services missing=()
    while read -r program package services; do
        if [[ $program == \#* || $package == cargo:* ]] || have "$program"; then
            continue
        elif [ -n "$services" ]; then
            # shellcheck disable=SC2086 # several words are several services
            (install_off "$package" $services) || true
        else
            missing+=("$program=$package")
        fi
    done <"$1"
    [ ${#missing[@]} -eq 0 ] || (need "${missing[@]}") || true
}

need_build_packages() {
    need gcc=gcc /usr/include/stdio.h=libc6-dev make=make pkg-config=pkg-config \
        /usr/include/libelf.h=libelf-dev /usr/include/zlib.h=zlib1g-dev /usr/include/pcap/pcap.h=libpcap-dev nft=nftables
}

# Chooses the building user. Under sudo it is the user who called it, unless only root has Rust, or both have it and the checkout
# belongs to another user: the build belongs to the owner of the sources. Sets $builder_home and $as_builder.
choose_builder() {
    builder_home=${HOME:-/root}
    as_builder=()
    [ "$EUID" -eq 0 ] && [ "${SUDO_USER:-root}" != root ] || return 0
    local home root_has=0 user_has=0 owner
    home=$(getent passwd "$SUDO_USER" | cut -d: -f6)
    owner=$(stat -c %U "$here")
    if have cargo || [ -x "$builder_home/.cargo/bin/cargo" ]; then root_has=1; fi
    if [ -x "$home/.cargo/bin/cargo" ] || [ -x /usr/bin/cargo ]; then user_has=1; fi
    if [ "$user_has" -gt "$root_has" ] || { [ "$user_has" = "$root_has" ] && [ "$owner" = "$SUDO_USER" ]; }; then
        builder_home=$home
        as_builder=(runuser -u "$SUDO_USER" -- env -u CARGO_HOME -u RUSTUP_HOME "HOME=$home")
    fi
}

# Runs a command as the builder, in the checkout, with the builder's Rust first.
build() {
    local path="${CARGO_HOME:-$builder_home/.cargo}/bin:$PATH"
    [ ${#as_builder[@]} -eq 0 ] || path="$builder_home/.cargo/bin:$PATH"
    (cd "$here" && exec "${as_builder[@]}" env "PATH=$path" "$@")
}

has_cargo() { build sh -c 'command -v cargo' >/dev/null; }

rust_is_new() {
    local version
    version=$(build rustc --version 2>/dev/null) && [[ $version =~ ^rustc\ 1\.([0-9]+) ]] &&
        [ "${BASH_REMATCH[1]}" -ge "$oldest_rust" ]
}

# Selects a toolchain that is new enough: the default one, rustup's stable one, or a new installation.
need_rust() {
    rust_is_new && return
    export RUSTUP_TOOLCHAIN=stable
    rust_is_new && return
    if ! build rustup --version >/dev/null 2>&1; then
        install_rustup
    fi
    say "installing the stable Rust toolchain below $builder_home"
    build rustup toolchain install stable --profile minimal --no-self-update >&2 || die "rustup failed, see above"
    rust_is_new || die "Rust 1.$oldest_rust or newer is needed: see https://rustup.rs"
}

install_rustup() {
    if have apt-cache && [ -n "$(apt-cache madison rustup 2>/dev/null)" ]; then
        install rustup
        return
    fi
    need curl=curl /etc/ssl/certs/ca-certificates.crt=ca-certificates
    local script
    # The first address redirects to the second; some networks allow only the second.
    script=$(fetch https://sh.rustup.rs) || script=$(fetch https://static.rust-lang.org/rustup/rustup-init.sh) ||
        die "Rust 1.$oldest_rust or newer is missing, and https://sh.rustup.rs cannot be reached"
    build sh -s -- -y --quiet --profile minimal --default-toolchain none --no-modify-path <<<"$script" >&2 ||
        die "the installation of rustup failed, see above"
}

fetch() {
    say "installing rustup from $1 below $builder_home"
    curl --proto '=https' --tlsv1.2 -sSf "$1"
}

# The build folder: in the checkout, or in the builder's cache if the checkout is not writable.
choose_target() {
    target=$here/target
    local folder=$target
    [ -d "$folder" ] || folder=$here
    "${as_builder[@]}" test -w "$folder" || target=${XDG_CACHE_HOME:-$builder_home/.cache}/weir/target
}

# Whether the program was built after the last change. Only used if cargo cannot decide it.
is_fresh() {
    [ -x "$1" ] && [ -z "$(cd "$here" && find Cargo.* crates plans bpf -newer "$1" -print -quit 2>/dev/null)" ]
}

# build_weir PACKAGE...: builds programs. Silent if there is nothing to do.
build_weir() {
    local log status=0
    log=$(mktemp)
    build env CARGO_TERM_COLOR=never cargo build --locked --release "${@/#/--package=}" --target-dir "$target" 2>&1 |
        show_build "$log" || status=$?
    if [ "$status" -ne 0 ]; then
        cat "$log" >&2
        rm -f "$log"
        die "the build failed, see above"
    fi
    rm -f "$log"
}

# Announces a build when it turns out that there is something to build; on a terminal names the crates.
show_build() {
    local line announced=
    while IFS= read -r line; do
        printf '%s\n' "$line" >>"$1"
        case $line in
        *Compiling*)
            [ "$announced" ] || say "building (the first time takes a minute or two)"
            announced=yes
            [ ! -t 2 ] || printf '\r\033[K%s' "$line" >&2
            ;;
        esac
    done
    [ -z "$announced" ] || [ ! -t 2 ] || printf '\r\033[K' >&2
}
