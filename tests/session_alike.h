/* For tests: runs a job and asserts that all ranks succeed and hold the same bits. */
#ifndef TESTS_SESSION_ALIKE_H
#define TESTS_SESSION_ALIKE_H

#include "session_fixture.h"

static fixture_result result[8];

static inline void run(const fixture_job *job)
{
    fixture_run(job, result);
    for (int r = 0; r < job->world; r++) {
        if (result[r].status != TG_OK)
            fail_msg("%s, %s, rank %d: %s", job->method, job->strategy, r, result[r].error);
        assert_true(result[r].hash == result[0].hash);
        assert_memory_equal(result[r].w, result[0].w, sizeof result[0].w);
    }
}

#endif
