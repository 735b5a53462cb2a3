# bash completion for paceline; made from its table of commands.
_paceline()
{
    local word given= value= choice= list= files= options=
    local now=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        if [ -n "$value" ]; then value=; continue; fi
        case $word in
        --server | --context | --format | --ca | --ca-sha256 | --role | --uses | --max-bytes | \
        --max-jobs | --expires | --get | --output | -o | --set | --name | --state | --label | \
        --order | --model | --train | --test | --epochs | --steps | --batch | --from | --cuts | \
        --devices | --without | --generation | --servers | --share-ends | --job | --dataset | \
        --metric | --since | --after | --text | --sound | --size | --channels) value=1 ;;
        -*) ;;
        *) given="$given${given:+ }$word" ;;
        esac
    done
    if [ -n "$value" ]; then
    case $before in
    --context) list=context ;;
    --format) choice='table wide json' ;;
    --ca) files=1 ;;
    --role) choice='join read submit operate admin' ;;
    --get) files=1 ;;
    --output | -o) files=1 ;;
    --order) choice='asc desc' ;;
    --model) list=model ;;
    --from) choice='best last' ;;
    --devices) list=device ;;
    --without) list=device ;;
    --job) list=job ;;
    --dataset) list=dataset ;;
    --metric) choice='loss step_seconds test_loss test_accuracy recall least_recall pull_seconds push_seconds segments_pull segments_push mix_seconds distance period_cv gap_seconds' ;;
    esac
    else
    case "$given" in
    '')
        choice='job device dataset model checkpoint incident token audit plan events version
        doctor login context completion' ;;
    job)
        choice='submit list get watch pause resume cancel delete export clone replan change
        plans plan incidents metrics checkpoints replicas groups mixes kernels' ;;
    device)
        choice='list get accept rename rekey cordon uncordon drain undrain remove links
        measurements' ;;
    dataset)
        choice='put list get delete' ;;
    model)
        choice='put list get delete' ;;
    checkpoint)
        choice='put list get delete' ;;
    incident)
        choice='list get delete' ;;
    token)
        choice='create list get revoke' ;;
    context)
        choice='list use remove' ;;
    'job submit') files=1 ;;
    'job get') list=job ;;
    'job watch') list=job ;;
    'job pause') list=job ;;
    'job resume') list=job ;;
    'job cancel') list=job ;;
    'job delete') list=job ;;
    'job export') list=job ;;
    'job clone') list=job ;;
    'job replan') list=job ;;
    'job change') list=job ;;
    'job plans') list=job ;;
    'job plan') list=job ;;
    'job incidents') list=job ;;
    'job metrics') list=job ;;
    'job checkpoints') list=job ;;
    'job replicas') list=job ;;
    'job groups') list=job ;;
    'job mixes') list=job ;;
    'job kernels') list=job ;;
    'device get') list=device ;;
    'device accept') list=device ;;
    'device rename') list=device ;;
    'device rekey') list=device ;;
    'device cordon') list=device ;;
    'device uncordon') list=device ;;
    'device drain') list=device ;;
    'device undrain') list=device ;;
    'device remove') list=device ;;
    'device links') list=device ;;
    'device measurements') list=device ;;
    'dataset put '*) files=1 ;;
    'dataset get') list=dataset ;;
    'dataset delete') list=dataset ;;
    'model put') files=1 ;;
    'model get') list=model ;;
    'model delete') list=model ;;
    'checkpoint put') files=1 ;;
    'checkpoint get') list=checkpoint ;;
    'checkpoint delete') list=checkpoint ;;
    'incident get') list=incident ;;
    'incident delete') list=incident ;;
    'token get') list=token ;;
    'token revoke') list=token ;;
    'plan') files=1 ;;
    'context use') list=context ;;
    'context remove') list=context ;;
    'completion') choice='bash zsh fish' ;;
    esac
    case "$given" in
    'job submit' | 'job submit '*)
        options='--wait --get --set --name --model --train --test --epochs --steps --batch
        --dry-run' ;;
    'job list' | 'job list '*)
        options='--name --state --order' ;;
    'job cancel' | 'job cancel '*)
        options='--keep' ;;
    'job clone' | 'job clone '*)
        options='--wait --get --set --name --train --test --epochs --steps --batch --dry-run
        --from' ;;
    'job replan' | 'job replan '*)
        options='--cuts --devices --generation --servers --share-ends' ;;
    'job change' | 'job change '*)
        options='--set' ;;
    'job plans' | 'job plans '*)
        options='--order' ;;
    'job incidents' | 'job incidents '*)
        options='--state --order' ;;
    'job metrics' | 'job metrics '*)
        options='--metric --since' ;;
    'job checkpoints' | 'job checkpoints '*)
        options='--order' ;;
    'job mixes' | 'job mixes '*)
        options='--order' ;;
    'device list' | 'device list '*)
        options='--name --state --label --order' ;;
    'device rekey' | 'device rekey '*)
        options='--expires' ;;
    'device measurements' | 'device measurements '*)
        options='--job' ;;
    'dataset put' | 'dataset put '*)
        options='--text --sound --size --channels' ;;
    'dataset list' | 'dataset list '*)
        options='--name --order' ;;
    'dataset get' | 'dataset get '*)
        options='--output' ;;
    'model list' | 'model list '*)
        options='--name --order' ;;
    'model get' | 'model get '*)
        options='--dataset' ;;
    'checkpoint list' | 'checkpoint list '*)
        options='--order' ;;
    'checkpoint get' | 'checkpoint get '*)
        options='--output' ;;
    'incident list' | 'incident list '*)
        options='--state --order' ;;
    'token create' | 'token create '*)
        options='--role --join --uses --max-bytes --max-jobs --pending --expires' ;;
    'token list' | 'token list '*)
        options='--order' ;;
    'audit' | 'audit '*)
        options='--order' ;;
    'plan' | 'plan '*)
        options='--set --devices --without --job' ;;
    'events' | 'events '*)
        options='--job --after' ;;
    'login' | 'login '*)
        options='--ca --ca-sha256' ;;
    esac
    options="$options --server --context --format --quiet --curl --help --version"
    fi
    [ -z "$list" ] || choice=$(paceline "$list" list --quiet 2>/dev/null |
        LC_ALL=C tr -cd 'A-Za-z0-9._\n-')
    case $now in -*) choice=$options ;; esac
    COMPREPLY=()
    while IFS= read -r word; do COMPREPLY+=("$word"); done \
        < <(compgen -W "$choice" -- "$now")
    [ -z "$files" ] || compopt -o default
}
complete -F _paceline paceline
