/* paceline: a client of a coordinator's public API. */
#include <stdio.h>
#include <stdlib.h>

#include "base/secret.h"
#include "cli/command.h"

/* $XDG_CONFIG_HOME/paceline, else $HOME/.config/paceline (XDG Base Directory Specification). */
static const char *config_directory(char *out, size_t size)
{
    const char *config = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    int used = config && config[0] == '/' ? snprintf(out, size, "%s/paceline", config)
               : home && home[0] == '/'   ? snprintf(out, size, "%s/.config/paceline", home)
                                          : -1;
    return used > 0 && (size_t)used < size ? out : NULL;
}

int main(int argc, char **argv)
{
    char config[1024];
    secret_hide_memory();
    const char *url = getenv("PACELINE_URL");
    const struct environment environment = {
        .url = url ? url : getenv("PACELINE_SERVER"), /* the earlier name of PACELINE_URL */
        .token = getenv("PACELINE_TOKEN"),
        .ca = getenv("PACELINE_CA"),
        .config = config_directory(config, sizeof(config)),
    };
    return (int)command_run(argc, argv, &environment, stdout, stderr);
}
