/* telegrad --version: the parts that this program was built from. */
#ifndef TG_CLI_VERSION_H
#define TG_CLI_VERSION_H

/* Print to standard output. */
void version_print(void);

#endif
