/* What fork() does to connections. A child would hold its parent's sockets open, so peers would not
 * see the parent's end. So each descriptor that belongs to connections is kept on a list here, and
 * is closed in every child; a membership knows whether it was made by this process. */
#ifndef TG_NET_FORKED_H
#define TG_NET_FORKED_H

#include "telegrad/net.h"

/* Call tg__fd_lock, create a descriptor, and pass it to tg__fd_keep at once: no child is forked in
 * between. */
void tg__fd_lock(void);
/* Put a descriptor on the list, and unlock. Returns it. It may be there already; -1 is fine. Leaves
 * errno as it is. */
int tg__fd_keep(int fd);
/* Close a descriptor that is on the list. Nothing else is closed: in a child the number may belong
 * to another file by now. Leaves errno as it is. */
void tg__fd_close(int fd);

/* How often fork() has led to this process since the first descriptor was kept. */
int tg__forks(void);
/* The membership was made by a process from which this one was forked. */
bool tg__net_is_foreign(const tg_net *n);
/* Fail if it was. Errors TG_E_STATE */
TG_NODISCARD tg_status tg__net_check_own(const tg_net *n, const char *call);

#endif
