/* The line of a run's summary that says how much less it has sent. */
#ifndef TG_CLI_RATIO_LINE_H
#define TG_CLI_RATIO_LINE_H

/* Print it to standard output.
 * ratio    the gradient's size over that of its code; not finite: nothing was sent
 * wire     the traffic of dense exchanges over the run's; not finite, or 0: there was none
 * nothing  what to say if nothing was sent */
void ratio_line_print(double ratio, double wire, const char *nothing);

#endif
