# What zsh offers for the end of a line ($2) by a completion script ($1), each on a line as <WORD>: typed into another zsh, on a pseudoterminal.
zmodload zsh/zpty || exit 3
zpty z zsh -f -i
say () { zpty -w z "$1; print -r -- '<'done'>'" && zpty -r z out '*<done>*' }
say "PROMPT=; setopt no_beep; autoload -U compinit; compinit -u -D; source ${(q)1}"
# Candidates go through `compadd`; with -O, -A or -D it only stores them.
say 'compadd () {
    if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
    local -a found; builtin compadd -A found "$@"; print -rl -- "" "<"$^found">"; builtin compadd "$@"
}'
say "tell_end () { print -r -- '<'end'>' }; comppostfuncs=(tell_end)"
zpty -n -w z "$2"$'\t'
zpty -r z out '*<end>*'
print -r -- ${${out//$'\r'}%'<end>'*}
