#!/bin/sh
# test_completion.sh PROGRAM - the completion scripts of bash, zsh and fish, and the manual page: they name every command and option, the
# shells read them, and bash, fish and zsh answer with the right candidates.  A shell that is not installed is skipped, which is said.

. "$(dirname -- "$0")/common.sh"

options=$("$program" help --markdown option | sed -n 's/^| `\(--*[a-z0-9-]*\).*/\1/p')
commands=$("$program" help --markdown command | sed -n 's/^| `onnxtrain \([a-z-]*\).*/\1/p')
[ "$(echo "$options" | wc -l)" -ge 50 ] && [ "$(echo "$commands" | wc -l)" -ge 12 ] || fail "help does not list options and commands"

# named SCRIPT: every command and option is in it
named() {
    for c in $commands; do grep -qE -- "(^|[^-a-z])$(echo "$c" | sed 's/-/.?-/')([^-a-z]|\$)" "$1" || fail "$1: command $c is missing"; done
    for o in $options; do
        case $1 in
        *.fish) o="-[ls] ${o#"${o%%[a-z]*}"}" ;;
        *.1) o=$(echo "$o" | sed 's/-/\\\\-/g') ;;
        esac
        grep -qE -- "(^|[^-a-z])$o([^-a-z]|\$)" "$1" || fail "$1: option $o is missing"
    done
}

for shell in bash zsh fish; do
    "$program" completion $shell >completion.$shell 2>err || fail "completion $shell"
    named completion.$shell
done
"$program" completion tcsh >out 2>err
[ $? = 2 ] && grep -q "supported: bash, zsh, fish" err || fail "completion tcsh is not refused"
"$program" completion >out 2>err
[ $? = 2 ] || fail "completion without a shell is not refused"

# ---- candidates: answers SHELL, LINE, what must be among them, what must not ------------------

cat >ask.bash <<'END'
. ./completion.bash
COMP_LINE=$1 COMP_POINT=${#1}
read -ra COMP_WORDS <<<"$1"
[[ $1 == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_onnxtrain
printf '%s\n' "${COMPREPLY[@]}"
END
cat >ask.fish <<'END'
source completion.fish
complete -C $argv[1] | string replace -r '\t.*' ''
exit 0
END

ask() {
    case $1 in
    bash) bash --norc ask.bash "$2" ;;
    fish) HOME=$work fish -N ask.fish "$2" ;;
    esac
}

answers() {
    for shell in $shells; do
        ask "$shell" "$1" >answer 2>err || fail "$shell: '$1' failed"
        [ -s err ] && fail "$shell: '$1' prints to standard error"
        for word in $2; do
            # bash replaces what follows the last : or =, fish the whole word
            case $shell in bash) before='^(.*,)?' ;; *) before='^(.*[:=,])?' ;; esac
            grep -qE -- "$before$word\$" answer || fail "$shell: '$1': $word is not offered"
        done
        for word in $3; do grep -qF -- "$word" answer && fail "$shell: '$1': $word is offered"; done
    done
}

shells=
for shell in bash fish; do
    if command -v $shell >/dev/null; then shells="$shells $shell"; else echo "skipped: $shell is not installed"; fi
done
touch net.onnx data.npz
answers "onnxtrain ev" eval "train"
answers "onnxtrain net" net.onnx eval
answers "onnxtrain eval net.onnx --" "--data --test --loss --json" "--epochs --deploy"
answers "onnxtrain net.onnx --" "--epochs --deploy --val" "--graph"
answers "onnxtrain net.onnx --precision " "fp32 bf16 auto" "net.onnx"
answers "onnxtrain net.onnx --bn f" frozen train
answers "onnxtrain net.onnx --bn=t" train frozen
answers "onnxtrain net.onnx --optimizer ada" "adam adamw adagrad" "sgd"
answers "onnxtrain net.onnx --loss smooth" smooth_l1 mse
answers "onnxtrain net.onnx --schedule " "cosine onecycle" "adam"
answers "onnxtrain net.onnx --optimizer sgd:m" momentum= "nesterov"
answers "onnxtrain net.onnx --optimizer sgd:momentum=0.9,nes" nesterov= "lr="
answers "onnxtrain net.onnx --optimizer sgd:momentum=0.9,nesterov=" "true false" "lr="
answers "onnxtrain net.onnx --data fashion" fashion-mnist "mnist8"
answers "onnxtrain net.onnx --data da" data.npz net.onnx
answers "onnxtrain new res" resnet18 lenet
answers "onnxtrain help opt" "optimizer option" loss
answers "onnxtrain help optimizer ada" adamw sgd
answers "onnxtrain completion z" zsh bash

if command -v zsh >/dev/null; then
    zsh -n completion.zsh 2>err || fail "zsh does not read its script"
else
    echo "skipped: zsh is not installed"
fi

# ---- the manual page ----------------------------------------------------------------------------

"$program" help --man >onnxtrain.1 2>err || fail "help --man"
named onnxtrain.1
for c in $commands; do grep -q "^\.SS .fBonnxtrain $(echo $c | sed s/-/../).fR" onnxtrain.1 || fail "the manual page has no section on $c"; done
grep -q '^\.TP' onnxtrain.1 && grep -q 'beta1' onnxtrain.1 || fail "the manual page has no keys"
if man --version >/dev/null 2>&1 && man --warnings -l onnxtrain.1 >out 2>err </dev/null; then
    [ -s err ] && fail "man warns of the page"
    grep -q "smooth_l1" out || fail "man does not print the page"
else
    echo "skipped: man is not installed"
fi
if command -v mandoc >/dev/null; then
    mandoc -T lint -W warning onnxtrain.1 | grep -v 'missing date' >err && fail "mandoc warns of the page"
else
    echo "skipped: mandoc is not installed"
fi

[ $bad = 0 ] && echo "bash, zsh and fish complete commands, options and values; the manual page is whole"
exit $((bad != 0))
