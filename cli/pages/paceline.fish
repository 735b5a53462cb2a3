# fish completion for paceline; made from its table of commands.
function __paceline_given
    set -l value
    set -l given
    for word in (commandline -opc)[2..]
        if set -q value[1]
            set -e value
            continue
        end
        switch $word
            case --server --context --format --ca --ca-sha256 --role --uses --max-bytes \
        --max-jobs --expires --get --output -o --set --name --state --label --order --model \
        --train --test --epochs --steps --batch --from --cuts --devices --without --generation \
        --servers --share-ends --job --dataset --metric --since --after --text --sound --size \
        --channels
                set -a value 1
            case '-*'
            case '*'
                set -a given $word
        end
    end
    echo "$given"
end
function __paceline_at
    test (__paceline_given) = "$argv[1]"
end
function __paceline_in
    string match -q -- "$argv[1] *" (__paceline_given)' '
end
complete -c paceline -f
complete -c paceline -n '__paceline_at ""' -a job
complete -c paceline -n '__paceline_at "job"' -a submit \
    -d 'Submit a job, described by a file, standard input (-) or options.'
complete -c paceline -n '__paceline_in "job submit"' -F
complete -c paceline -n '__paceline_at "job"' -a list \
    -d 'List the jobs, the oldest first.'
complete -c paceline -n '__paceline_at "job"' -a get \
    -d 'Show a job.'
complete -c paceline -n '__paceline_at "job get"' \
    -a '(paceline job list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "job"' -a watch \
    -d 'Follow a job to its end.'
complete -c paceline -n '__paceline_at "job watch"' \
    -a '(paceline job list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "job"' -a pause \
    -d 'Pause a job after its present step.'
complete -c paceline -n '__paceline_at "job pause"' \
    -a '(paceline job list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "job"' -a resume \
    -d 'Resume a paused job.'
complete -c paceline -n '__paceline_at "job resume"' \
    -a '(paceline job list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "job"' -a cancel \
    -d 'End a job.'
complete -c paceline -n '__paceline_at "job cancel"' \
    -a '(paceline job list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "job"' -a delete \
    -d 'Delete an ended job with its plans, metrics and checkpoints.'
complete -c paceline -n '__paceline_at "job delete"' \
    -a '(paceline job list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "job"' -a export \
    -d 'Store the newest whole version of a job as a checkpoint.'
complete -c paceline -n '__paceline_at "job export"' \
    -a '(paceline job list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "job"' -a clone \
    -d 'Submit a new job that starts from a checkpoint of a job.'
complete -c paceline -n '__paceline_at "job clone"' \
    -a '(paceline job list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "job"' -a replan \
    -d 'Give a running job a new plan.'
complete -c paceline -n '__paceline_at "job replan"' \
    -a '(paceline job list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "job"' -a change \
    -d 'Change replan and replication of a job.'
complete -c paceline -n '__paceline_at "job change"' \
    -a '(paceline job list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "job"' -a plans \
    -d 'List the plans that a job has had.'
complete -c paceline -n '__paceline_at "job plans"' \
    -a '(paceline job list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "job"' -a plan \
    -d 'Show the stages of one plan of a job.'
complete -c paceline -n '__paceline_at "job plan"' \
    -a '(paceline job list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "job"' -a incidents \
    -d 'List the failures of a job.'
complete -c paceline -n '__paceline_at "job incidents"' \
    -a '(paceline job list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "job"' -a metrics \
    -d 'List the metrics of a job by step.'
complete -c paceline -n '__paceline_at "job metrics"' \
    -a '(paceline job list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "job"' -a checkpoints \
    -d 'List the trained models of a job.'
complete -c paceline -n '__paceline_at "job checkpoints"' \
    -a '(paceline job list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "job"' -a replicas \
    -d 'Show what each failure would cost a job.'
complete -c paceline -n '__paceline_at "job replicas"' \
    -a '(paceline job list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "job"' -a groups \
    -d 'Show the parts of a job of sub-models or of gossip.'
complete -c paceline -n '__paceline_at "job groups"' \
    -a '(paceline job list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "job"' -a mixes \
    -d 'List what the groups of a job of gossip did, by match.'
complete -c paceline -n '__paceline_at "job mixes"' \
    -a '(paceline job list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "job"' -a kernels \
    -d 'Show the kernels of a job\'s convolutions as JSON.'
complete -c paceline -n '__paceline_at "job kernels"' \
    -a '(paceline job list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at ""' -a device
complete -c paceline -n '__paceline_at "device"' -a list \
    -d 'List the devices, the oldest first.'
complete -c paceline -n '__paceline_at "device"' -a get \
    -d 'Show a device.'
complete -c paceline -n '__paceline_at "device get"' \
    -a '(paceline device list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "device"' -a accept \
    -d 'Let plans use a device that has joined and is pending.'
complete -c paceline -n '__paceline_at "device accept"' \
    -a '(paceline device list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "device"' -a rename \
    -d 'Give a device another name.'
complete -c paceline -n '__paceline_at "device rename"' \
    -a '(paceline device list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "device"' -a rekey \
    -d 'Make a token with which a machine that was set up anew becomes DEVICE.'
complete -c paceline -n '__paceline_at "device rekey"' \
    -a '(paceline device list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "device"' -a cordon \
    -d 'Keep a device out of further plans.'
complete -c paceline -n '__paceline_at "device cordon"' \
    -a '(paceline device list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "device"' -a uncordon \
    -d 'Allow a device in further plans again.'
complete -c paceline -n '__paceline_at "device uncordon"' \
    -a '(paceline device list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "device"' -a drain \
    -d 'Empty a device, to switch it off without a failure.'
complete -c paceline -n '__paceline_at "device drain"' \
    -a '(paceline device list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "device"' -a undrain \
    -d 'Use a drained device again.'
complete -c paceline -n '__paceline_at "device undrain"' \
    -a '(paceline device list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "device"' -a remove \
    -d 'Remove a device that is in no plan.'
complete -c paceline -n '__paceline_at "device remove"' \
    -a '(paceline device list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "device"' -a links \
    -d 'List the measured links of a device.'
complete -c paceline -n '__paceline_at "device links"' \
    -a '(paceline device list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "device"' -a measurements \
    -d 'List the measured times of units on a device.'
complete -c paceline -n '__paceline_at "device measurements"' \
    -a '(paceline device list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at ""' -a dataset
complete -c paceline -n '__paceline_at "dataset"' -a put \
    -d 'Upload a data set: a file, or a directory as a tar.'
complete -c paceline -n '__paceline_in "dataset put"' -F
complete -c paceline -n '__paceline_at "dataset"' -a list \
    -d 'List the data sets.'
complete -c paceline -n '__paceline_at "dataset"' -a get \
    -d 'Show a data set, or download it.'
complete -c paceline -n '__paceline_at "dataset get"' \
    -a '(paceline dataset list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "dataset"' -a delete \
    -d 'Delete a data set that no live job uses.'
complete -c paceline -n '__paceline_at "dataset delete"' \
    -a '(paceline dataset list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at ""' -a model
complete -c paceline -n '__paceline_at "model"' -a put \
    -d 'Add a model that a file describes.'
complete -c paceline -n '__paceline_in "model put"' -F
complete -c paceline -n '__paceline_at "model"' -a list \
    -d 'List the models, those of the zoo first.'
complete -c paceline -n '__paceline_at "model"' -a get \
    -d 'Show the units of a model.'
complete -c paceline -n '__paceline_at "model get"' \
    -a '(paceline model list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "model"' -a delete \
    -d 'Delete a model that was added and that no live job uses.'
complete -c paceline -n '__paceline_at "model delete"' \
    -a '(paceline model list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at ""' -a checkpoint
complete -c paceline -n '__paceline_at "checkpoint"' -a put \
    -d 'Upload a safetensors file for jobs to start from.'
complete -c paceline -n '__paceline_in "checkpoint put"' -F
complete -c paceline -n '__paceline_at "checkpoint"' -a list \
    -d 'List the trained models.'
complete -c paceline -n '__paceline_at "checkpoint"' -a get \
    -d 'Show a trained model, or download it.'
complete -c paceline -n '__paceline_at "checkpoint get"' \
    -a '(paceline checkpoint list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "checkpoint"' -a delete \
    -d 'Delete a trained model from which no live job starts.'
complete -c paceline -n '__paceline_at "checkpoint delete"' \
    -a '(paceline checkpoint list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at ""' -a incident
complete -c paceline -n '__paceline_at "incident"' -a list \
    -d 'List all failures, the oldest first.'
complete -c paceline -n '__paceline_at "incident"' -a get \
    -d 'Show a failure.'
complete -c paceline -n '__paceline_at "incident get"' \
    -a '(paceline incident list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "incident"' -a delete \
    -d 'Delete a failure that is over.'
complete -c paceline -n '__paceline_at "incident delete"' \
    -a '(paceline incident list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at ""' -a token
complete -c paceline -n '__paceline_at "token"' -a create \
    -d 'Make a token; its secret is shown this once.'
complete -c paceline -n '__paceline_at "token"' -a list \
    -d 'List the tokens, without their secrets.'
complete -c paceline -n '__paceline_at "token"' -a get \
    -d 'Show a token, without its secret.'
complete -c paceline -n '__paceline_at "token get"' \
    -a '(paceline token list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "token"' -a revoke \
    -d 'End a token.'
complete -c paceline -n '__paceline_at "token revoke"' \
    -a '(paceline token list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at ""' -a audit \
    -d 'List who changed what, the newest change first.'
complete -c paceline -n '__paceline_at ""' -a plan \
    -d 'Show the plan that a job would get with other devices or fields.'
complete -c paceline -n '__paceline_in "plan"' -F
complete -c paceline -n '__paceline_at ""' -a events \
    -d 'Print events as they happen.'
complete -c paceline -n '__paceline_at ""' -a version \
    -d 'Show the versions of this program and of the coordinator.'
complete -c paceline -n '__paceline_at ""' -a doctor \
    -d 'Show what is wrong with an installation.'
complete -c paceline -n '__paceline_at ""' -a login \
    -d 'Store an address and a token (of standard input unless given) as a context.'
complete -c paceline -n '__paceline_at ""' -a context
complete -c paceline -n '__paceline_at "context"' -a list \
    -d 'List the contexts.'
complete -c paceline -n '__paceline_at "context"' -a use \
    -d 'Make a context the current one.'
complete -c paceline -n '__paceline_at "context use"' \
    -a '(paceline context list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at "context"' -a remove \
    -d 'Forget a context.'
complete -c paceline -n '__paceline_at "context remove"' \
    -a '(paceline context list --quiet 2>/dev/null)'
complete -c paceline -n '__paceline_at ""' -a completion \
    -d 'Write a script that completes command lines: bash, zsh or fish.'
complete -c paceline -n '__paceline_at "completion"' -a 'bash zsh fish'
complete -c paceline -l server -x \
    -d 'Address of the coordinator.'
complete -c paceline -l context -x \
    -d 'Use the address and token of this context. Default: the current one.'
complete -c paceline -l format -x \
    -a 'table wide json' \
    -d 'How to write the answer: table, wide or json. Default: table;'
complete -c paceline -s q -l quiet \
    -d 'Write ids only. Default: off.'
complete -c paceline -l curl \
    -d 'Write the equivalent curl command; change nothing. Default: off.'
complete -c paceline -n '__paceline_in "job submit"' -s w -l wait \
    -d 'Watch the job to its end. Default: off.'
complete -c paceline -n '__paceline_in "job submit"' -l get -r -F \
    -d 'Watch the job to its end and download its model. Default: none.'
complete -c paceline -n '__paceline_in "job submit"' -l set -x \
    -d 'Set a field, such as optimizer.type=adamw; repeatable. Default: none.'
complete -c paceline -n '__paceline_in "job submit"' -l name -x \
    -d 'Name of the new job; of a list, only items of this name, or with NAME* of names that'
complete -c paceline -n '__paceline_in "job submit"' -l model -x \
    -d 'Name of the model. Default: that of the file.'
complete -c paceline -n '__paceline_in "job submit"' -l train -x \
    -d 'Training data: a file or directory, uploaded unless it is there, or the'
complete -c paceline -n '__paceline_in "job submit"' -l test -x \
    -d 'Test data, likewise. Default: that of the file.'
complete -c paceline -n '__paceline_in "job submit"' -l epochs -x \
    -d 'Passes over the training data. Default: the API\'s.'
complete -c paceline -n '__paceline_in "job submit"' -l steps -x \
    -d 'End the job after N steps. Default: by the epochs.'
complete -c paceline -n '__paceline_in "job submit"' -l batch -x \
    -d 'Samples of a step. Default: the API\'s.'
complete -c paceline -n '__paceline_in "job submit"' -l dry-run \
    -d 'Show the plan that the job would get; submit nothing. Default: off.'
complete -c paceline -n '__paceline_in "job list"' -l name -x \
    -d 'Name of the new job; of a list, only items of this name, or with NAME* of names that'
complete -c paceline -n '__paceline_in "job list"' -l state -x \
    -d 'Only items in one of these states. Default: all.'
complete -c paceline -n '__paceline_in "job list"' -l order -x \
    -a 'asc desc' \
    -d 'asc: rising by time, or by name; desc: falling. Default: the API\'s.'
complete -c paceline -n '__paceline_in "job cancel"' -l keep \
    -d 'Store the newest whole version as a checkpoint. Default: off.'
complete -c paceline -n '__paceline_in "job clone"' -s w -l wait \
    -d 'Watch the job to its end. Default: off.'
complete -c paceline -n '__paceline_in "job clone"' -l get -r -F \
    -d 'Watch the job to its end and download its model. Default: none.'
complete -c paceline -n '__paceline_in "job clone"' -l set -x \
    -d 'Set a field, such as optimizer.type=adamw; repeatable. Default: none.'
complete -c paceline -n '__paceline_in "job clone"' -l name -x \
    -d 'Name of the new job; of a list, only items of this name, or with NAME* of names that'
complete -c paceline -n '__paceline_in "job clone"' -l train -x \
    -d 'Training data: a file or directory, uploaded unless it is there, or the'
complete -c paceline -n '__paceline_in "job clone"' -l test -x \
    -d 'Test data, likewise. Default: that of the file.'
complete -c paceline -n '__paceline_in "job clone"' -l epochs -x \
    -d 'Passes over the training data. Default: the API\'s.'
complete -c paceline -n '__paceline_in "job clone"' -l steps -x \
    -d 'End the job after N steps. Default: by the epochs.'
complete -c paceline -n '__paceline_in "job clone"' -l batch -x \
    -d 'Samples of a step. Default: the API\'s.'
complete -c paceline -n '__paceline_in "job clone"' -l dry-run \
    -d 'Show the plan that the job would get; submit nothing. Default: off.'
complete -c paceline -n '__paceline_in "job clone"' -l from -x \
    -a 'best last' \
    -d 'The checkpoint to start from: best or last. Required.'
complete -c paceline -n '__paceline_in "job replan"' -l cuts -x \
    -d 'The first unit of each stage but the first. Default: the planner\'s.'
complete -c paceline -n '__paceline_in "job replan"' -l devices -x \
    -d 'The devices of the plan, in order. Default: the planner\'s.'
complete -c paceline -n '__paceline_in "job replan"' -l generation -x \
    -d 'Return to the plan of this generation. Default: a new plan.'
complete -c paceline -n '__paceline_in "job replan"' -l servers -x \
    -d 'With a parameter server: how many devices keep the model. Default: the job\'s.'
complete -c paceline -n '__paceline_in "job replan"' -l share-ends -x \
    -d 'With a parameter server: one past the last micro-batch of each device; 0: it'
complete -c paceline -n '__paceline_in "job change"' -l set -x \
    -d 'Set a field, such as optimizer.type=adamw; repeatable. Default: none.'
complete -c paceline -n '__paceline_in "job plans"' -l order -x \
    -a 'asc desc' \
    -d 'asc: rising by time, or by name; desc: falling. Default: the API\'s.'
complete -c paceline -n '__paceline_in "job incidents"' -l state -x \
    -d 'Only items in one of these states. Default: all.'
complete -c paceline -n '__paceline_in "job incidents"' -l order -x \
    -a 'asc desc' \
    -d 'asc: rising by time, or by name; desc: falling. Default: the API\'s.'
complete -c paceline -n '__paceline_in "job metrics"' -l metric -x \
    -a 'loss step_seconds test_loss test_accuracy recall least_recall pull_seconds push_seconds segments_pull segments_push mix_seconds distance period_cv gap_seconds' \
    -d 'Only this metric. Default: all.'
complete -c paceline -n '__paceline_in "job metrics"' -l since -x \
    -d 'Only later steps. Default: all.'
complete -c paceline -n '__paceline_in "job checkpoints"' -l order -x \
    -a 'asc desc' \
    -d 'asc: rising by time, or by name; desc: falling. Default: the API\'s.'
complete -c paceline -n '__paceline_in "job mixes"' -l order -x \
    -a 'asc desc' \
    -d 'asc: rising by time, or by name; desc: falling. Default: the API\'s.'
complete -c paceline -n '__paceline_in "device list"' -l name -x \
    -d 'Name of the new job; of a list, only items of this name, or with NAME* of names that'
complete -c paceline -n '__paceline_in "device list"' -l state -x \
    -d 'Only items in one of these states. Default: all.'
complete -c paceline -n '__paceline_in "device list"' -l label -x \
    -d 'Only devices with all these labels. Default: all.'
complete -c paceline -n '__paceline_in "device list"' -l order -x \
    -a 'asc desc' \
    -d 'asc: rising by time, or by name; desc: falling. Default: the API\'s.'
complete -c paceline -n '__paceline_in "device rekey"' -l expires -x \
    -d 'How long the token is valid: seconds, or 30m, 12h, 7d. Default: a day for joining,'
complete -c paceline -n '__paceline_in "device measurements"' -l job -x \
    -d 'The job in question. Default: none.'
complete -c paceline -n '__paceline_in "dataset put"' -l text -x \
    -d 'Plain text, in samples of T bytes. Default: by content.'
complete -c paceline -n '__paceline_in "dataset put"' -l sound -x \
    -d 'WAV files of this sampling rate. Default: by content.'
complete -c paceline -n '__paceline_in "dataset put"' -l size -x \
    -d 'Height and width of image files. Default: theirs.'
complete -c paceline -n '__paceline_in "dataset put"' -l channels -x \
    -d 'Channels of image files: 1 or 3. Default: 3.'
complete -c paceline -n '__paceline_in "dataset list"' -l name -x \
    -d 'Name of the new job; of a list, only items of this name, or with NAME* of names that'
complete -c paceline -n '__paceline_in "dataset list"' -l order -x \
    -a 'asc desc' \
    -d 'asc: rising by time, or by name; desc: falling. Default: the API\'s.'
complete -c paceline -n '__paceline_in "dataset get"' -s o -l output -r -F \
    -d 'Write the content to this file; - is the standard output.'
complete -c paceline -n '__paceline_in "model list"' -l name -x \
    -d 'Name of the new job; of a list, only items of this name, or with NAME* of names that'
complete -c paceline -n '__paceline_in "model list"' -l order -x \
    -a 'asc desc' \
    -d 'asc: rising by time, or by name; desc: falling. Default: the API\'s.'
complete -c paceline -n '__paceline_in "model get"' -l dataset -x \
    -d 'The data set that gives the shape of the input. Default: the usual shape.'
complete -c paceline -n '__paceline_in "checkpoint list"' -l order -x \
    -a 'asc desc' \
    -d 'asc: rising by time, or by name; desc: falling. Default: the API\'s.'
complete -c paceline -n '__paceline_in "checkpoint get"' -s o -l output -r -F \
    -d 'Write the content to this file; - is the standard output.'
complete -c paceline -n '__paceline_in "incident list"' -l state -x \
    -d 'Only items in one of these states. Default: all.'
complete -c paceline -n '__paceline_in "incident list"' -l order -x \
    -a 'asc desc' \
    -d 'asc: rising by time, or by name; desc: falling. Default: the API\'s.'
complete -c paceline -n '__paceline_in "token create"' -l role -x \
    -a 'join read submit operate admin' \
    -d 'What the token may do. Default: read.'
complete -c paceline -n '__paceline_in "token create"' -l join \
    -d 'Make a token for \'paceline-agent join\'. Default: off.'
complete -c paceline -n '__paceline_in "token create"' -l uses -x \
    -d 'How many devices may join with the token. Default: 1.'
complete -c paceline -n '__paceline_in "token create"' -l max-bytes -x \
    -d 'How many bytes the token may upload, all uploads together. Default: any.'
complete -c paceline -n '__paceline_in "token create"' -l max-jobs -x \
    -d 'How many jobs the token may submit or clone. Default: any.'
complete -c paceline -n '__paceline_in "token create"' -l pending \
    -d 'Devices that join with the token wait for device accept. Default: off.'
complete -c paceline -n '__paceline_in "token create"' -l expires -x \
    -d 'How long the token is valid: seconds, or 30m, 12h, 7d. Default: a day for joining,'
complete -c paceline -n '__paceline_in "token list"' -l order -x \
    -a 'asc desc' \
    -d 'asc: rising by time, or by name; desc: falling. Default: the API\'s.'
complete -c paceline -n '__paceline_in "audit"' -l order -x \
    -a 'asc desc' \
    -d 'asc: rising by time, or by name; desc: falling. Default: the API\'s.'
complete -c paceline -n '__paceline_in "plan"' -l set -x \
    -d 'Set a field, such as optimizer.type=adamw; repeatable. Default: none.'
complete -c paceline -n '__paceline_in "plan"' -l devices -x \
    -d 'The devices of the plan, in order. Default: the planner\'s.'
complete -c paceline -n '__paceline_in "plan"' -l without -x \
    -d 'Devices that the plan leaves out. Default: none.'
complete -c paceline -n '__paceline_in "plan"' -l job -x \
    -d 'The job in question. Default: none.'
complete -c paceline -n '__paceline_in "events"' -l job -x \
    -d 'The job in question. Default: none.'
complete -c paceline -n '__paceline_in "events"' -l after -x \
    -d 'Start after this event. Default: with new events.'
complete -c paceline -n '__paceline_in "login"' -l ca -r -F \
    -d 'Trust the certificates in this file and no others. Default: the system\'s.'
complete -c paceline -n '__paceline_in "login"' -l ca-sha256 -x \
    -d 'Fetch the authority of the coordinator and trust it, if it has this SHA-256, which'
