/*
 * Bans functions that lose track of lengths, hide errors or share state between threads: a call of
 * one is a compile error that names the function. git's banned.h does the same.
 */
#ifndef FG_COMMON_BASE_BANNED_H
#define FG_COMMON_BASE_BANNED_H

#ifndef __cplusplus

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FG_BANNED(func) sorry_##func##_is_a_banned_function

#undef strcpy
#define strcpy(x, y) FG_BANNED(strcpy)
#undef strcat
#define strcat(x, y) FG_BANNED(strcat)
#undef strncpy
#define strncpy(x, y, n) FG_BANNED(strncpy)
#undef strncat
#define strncat(x, y, n) FG_BANNED(strncat)
#undef strtok
#define strtok(x, y) FG_BANNED(strtok)
#undef sprintf
#define sprintf(...) FG_BANNED(sprintf)
#undef vsprintf
#define vsprintf(...) FG_BANNED(vsprintf)
#undef atoi
#define atoi(x) FG_BANNED(atoi)
#undef atol
#define atol(x) FG_BANNED(atol)
#undef gmtime
#define gmtime(t) FG_BANNED(gmtime)
#undef localtime
#define localtime(t) FG_BANNED(localtime)
#undef ctime
#define ctime(t) FG_BANNED(ctime)
#undef asctime
#define asctime(t) FG_BANNED(asctime)

#endif
#endif
