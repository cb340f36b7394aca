#include "command/train/ratio_line.h"
#include "command/output/format.h"
#include <math.h>
#include <stdio.h>

#define NEAR 0.005 /* of 1, which would be printed as 1.00 */

void ratio_line_print(double ratio, double wire, const char *nothing)
{
    const bool coded = isfinite(ratio), exchanged = isfinite(wire) && wire > 0;
    printf("ratio          ");
    if (!coded && !exchanged)
        printf("none: %s", nothing);
    if (coded && fabs(ratio - 1) < NEAR)
        printf("gradients are sent as they are");
    else if (coded)
        printf("coded gradients are %s %s", format_ratio(ratio > 1 ? ratio : 1 / ratio, "x").text,
               ratio > 1 ? "smaller" : "larger");
    if (coded && exchanged)
        printf("; ");
    if (exchanged && fabs(wire - 1) < NEAR)
        printf("traffic is that of a dense exchange");
    else if (exchanged)
        printf("traffic is %s %s than that of a dense exchange",
               format_ratio(wire > 1 ? wire : 1 / wire, "x").text, wire > 1 ? "less" : "more");
    printf("\n");
}
