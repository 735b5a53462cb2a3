/* init.h: the command `paceline-coordinator init`, which prepares a state directory. The program
 * only. */
#ifndef COORDINATOR_INIT_H
#define COORDINATOR_INIT_H

/* argv[0] is "init". Returns the program's exit status. */
int init_run(int argc, char **argv);

#endif
