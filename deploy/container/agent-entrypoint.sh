#!/bin/sh
# The agent in a container: joins once, if $PACELINE_JOIN_TOKEN_FILE holds a join token, then runs
# with the words of the command.
set -eu

if [ ! -e "$STATE_DIRECTORY/joined.conf" ] && [ -n "${PACELINE_JOIN_TOKEN_FILE:-}" ]; then
    : "${PACELINE_COORDINATOR:?the address of the coordinator, https://HOST:7410}"
    if [ ! -r "$PACELINE_JOIN_TOKEN_FILE" ]; then
        echo "agent-entrypoint: '$PACELINE_JOIN_TOKEN_FILE' (PACELINE_JOIN_TOKEN_FILE) cannot be" \
            "read by user $(id -u)" >&2
        exit 2
    fi
    paceline-agent join "$PACELINE_COORDINATOR" <"$PACELINE_JOIN_TOKEN_FILE"
fi
exec paceline-agent "$@"
