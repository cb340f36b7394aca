/* A signal arrives while a layer computes; its handler must run on the thread's own stack. oneDNN's
 * matrix products meanwhile point the stack pointer into the heap, and the system writes the
 * interrupted registers below it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include "trainer/nn/nn.h"
#include "telegrad/tools.h"

#define OK(expr) assert_int_equal((expr), TG_OK)

enum { SIGNALS = 1000, BATCH = 32, IN = 800, OUT = 500 };

static atomic_uint arrived, astray;
static uintptr_t stack_low, stack_high; /* stack of the computing thread */

static void on_signal(int number)
{
    (void)number;
    const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    atomic_fetch_add(&arrived, 1);
    if (here < stack_low || here >= stack_high)
        atomic_fetch_add(&astray, 1);
}

static void note_stack(void)
{
    pthread_attr_t attr;
    void *low;
    size_t bytes;
    assert_int_equal(pthread_getattr_np(pthread_self(), &attr), 0);
    assert_int_equal(pthread_attr_getstack(&attr, &low, &bytes), 0);
    pthread_attr_destroy(&attr);
    stack_low = (uintptr_t)low;
    stack_high = stack_low + bytes;
}

static float *floats(size_t n)
{
    float *x;
    OK(tg_alloc(n, sizeof *x, &x));
    return x;
}

/* A thread that runs `layer` again and again until `quit`. */
typedef struct job {
    tg_status (*layer)(const struct job *j);
    float *x, *w, *y, *bias;
    nn_conv *conv;
    bool masked; /* a call returned with other signals blocked than before */
    atomic_bool ready, quit;
} job;

static tg_status dense_forward(const job *j)
{
    return nn_dense_forward(BATCH, IN, OUT, j->x, j->w, j->bias, j->y);
}

static tg_status dense_backward_weights(const job *j) /* long in the summed direction */
{
    return nn_dense_backward_weights(IN, BATCH, BATCH, j->x, j->w, j->y, j->bias);
}

static tg_status dense_backward_data(const job *j)
{
    return nn_dense_backward_data(BATCH, IN, OUT, j->y, j->w, j->x);
}

static tg_status conv_forward(const job *j)
{
    return nn_conv_forward(j->conv, j->x, j->w, j->bias, j->y);
}

static bool open_now(void)
{
    sigset_t now;
    assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
    return !sigismember(&now, SIGUSR1) && !sigismember(&now, SIGTERM);
}

static void *compute(void *arg)
{
    job *j = arg;
    const nn_conv_shape shape = {BATCH, 5, 5,    20,    20,   5,
                                 1,     0, true, false, false}; /* sums of 500 */
    nn *n;
    OK(nn_create(&n));
    OK(nn_conv_create(n, &shape, &j->conv));
    note_stack();
    atomic_store(&j->ready, true);
    while (!atomic_load(&j->quit)) {
        OK(j->layer(j));
        j->masked = j->masked || !open_now();
    }
    nn_conv_destroy(j->conv);
    nn_destroy(n);
    return NULL;
}

static void interrupt(tg_status (*layer)(const job *j))
{
    const struct timespec pause = {.tv_nsec = 50000};
    job j = {.layer = layer,
             .x = floats(BATCH * IN),
             .w = floats(IN * OUT),
             .y = floats(BATCH * IN),
             .bias = floats(OUT)};
    pthread_t thread;
    arrived = astray = 0;
    assert_int_equal(pthread_create(&thread, NULL, compute, &j), 0);
    while (!atomic_load(&j.ready))
        nanosleep(&pause, NULL);
    for (int i = 0; i < SIGNALS; i++) {
        assert_int_equal(pthread_kill(thread, SIGUSR1), 0);
        nanosleep(&pause, NULL);
    }
    atomic_store(&j.quit, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(astray, 0);
    assert_true(arrived > 0);
    assert_false(j.masked);
    free(j.x);
    free(j.w);
    free(j.y);
    free(j.bias);
}

static void test_layers(void **state)
{
    (void)state;
    interrupt(dense_forward);
    interrupt(dense_backward_weights);
    interrupt(dense_backward_data);
    interrupt(conv_forward);
}

static int install(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    return sigaction(SIGUSR1, &action, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layers)};
    return cmocka_run_group_tests(tests, install, NULL);
}
