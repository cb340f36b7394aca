/* telegrad --version: what this program is made of. */
#ifndef TG_CLI_VERSION_H
#define TG_CLI_VERSION_H

/* On standard output. */
void version_print(void);

#endif
