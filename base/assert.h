/* assert.h: ASSERT is for our own mistakes and is always on, in every build type; struct err is for
 * the world. Any room, any thread. It prints the place and aborts, so that a broken invariant never
 * reaches the disk. */
#ifndef BASE_ASSERT_H
#define BASE_ASSERT_H

/* Print "file:line: condition" to stderr and abort. */
_Noreturn void assert_fail(const char *file, int line, const char *condition);

#define ASSERT(condition) ((condition) ? (void)0 : assert_fail(__FILE__, __LINE__, #condition))

#endif
