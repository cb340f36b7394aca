# Completion of telegrad's commands, options and names for bash. Options are those that `telegrad COMMAND --help` names, names
# those that `telegrad methods`, `telegrad strategies`, ... list, so this file does not know any.
_telegrad()
{
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} tool=${COMP_WORDS[0]} command=${COMP_WORDS[1]} words=
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ] || [ "$COMP_CWORD" -eq 2 -a "$command" = help ]; then
        words="train compare eval methods strategies exchanges codecs feedbacks optimizers lr-schedules models data bench
            advise report help --help --version"
        COMPREPLY=($(compgen -W "$words" -- "$word"))
        return
    fi
    case $before in
    --method) words=$(_telegrad_names "$tool" methods) ;;
    --strategy) words=$(_telegrad_names "$tool" strategies) ;;
    --optimizer) words=$(_telegrad_names "$tool" optimizers) ;;
    --lr-schedule) words=$(_telegrad_names "$tool" lr-schedules) ;;
    --model) words=$(_telegrad_names "$tool" models) ;;
    --overlap) words='full backward none' ;;
    --driver) words='auto thread inline' ;;
    --precision) words='fp32 bf16' ;;
    --clock) words=virtual ;;
    *)
        case $word in
        -*) words=$("$tool" "$command" --help 2>/dev/null | grep -o -- '--[a-z][a-z-]*' | sort -u) ;;
        *)
            case $command in
            methods | strategies | exchanges | codecs | feedbacks | optimizers | lr-schedules | models)
                words=$(_telegrad_names "$tool" "$command")
                ;;
            bench) [ "$COMP_CWORD" -ne 2 ] || words='codec train exchange strategy' ;;
            esac
            ;;
        esac
        ;;
    esac
    [ -z "$words" ] || COMPREPLY=($(compgen -W "$words" -- "$word"))
}

# What a listing names: the first word of each line that has a second one, without the headings of families.
_telegrad_names()
{
    COLUMNS=10000 "$1" "$2" 2>/dev/null | awk 'NF > 1 && $1 ~ /^[a-z0-9]/ { print $1 }'
}

complete -o default -F _telegrad telegrad
