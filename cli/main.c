/* paceline: a client of a coordinator's public API. */
#include <stdlib.h>

#include "cli/command.h"

int main(int argc, char **argv)
{
    const char *url = getenv("PACELINE_URL");
    /* The variable's earlier name. */
    return (int)command_run(argc, argv, url ? url : getenv("PACELINE_SERVER"), stdout, stderr);
}
