/* paceline: a client of a coordinator's public API. */
#include <stdlib.h>

#include "cli/command.h"

int main(int argc, char **argv)
{
    return command_run(argc, argv, getenv("PACELINE_SERVER"), stdout, stderr);
}
