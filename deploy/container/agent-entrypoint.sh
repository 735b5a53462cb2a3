#!/bin/sh
# The agent in a container: joins once, if $PACELINE_JOIN_TOKEN_FILE holds a join token, then runs
# with the words of the command.
set -eu

if [ ! -e "$STATE_DIRECTORY/joined.conf" ] && [ -r "${PACELINE_JOIN_TOKEN_FILE:-}" ]; then
    paceline-agent join "$PACELINE_COORDINATOR" <"$PACELINE_JOIN_TOKEN_FILE"
fi
exec paceline-agent "$@"
