/* telegrad --version: what this program is made of. */
#ifndef TG_CLI_VERSION_H
#define TG_CLI_VERSION_H

/* Prints it; returns an exit status. */
int version_print(void);

#endif
