/* assert.h: ASSERT is for programming errors and is on in every build type; struct err is for
 * errors of input and environment. Any room, any thread. A failed ASSERT prints its place and
 * aborts, so that a broken invariant never reaches the disk. */
#ifndef BASE_ASSERT_H
#define BASE_ASSERT_H

/* Print "file:line: condition" to stderr and abort. */
_Noreturn void assert_fail(const char *file, int line, const char *condition);

#define ASSERT(condition) ((condition) ? (void)0 : assert_fail(__FILE__, __LINE__, #condition))

#endif
