/* A team of threads that run one function together and wait for each other between its phases.

   Threads live for one call: starting one takes 20 us, next to milliseconds for a step, and nothing is left over that a
   fork could break. Who waits spins for a moment and then lets others run, so that a busy machine loses little.  */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define MOST_THREADS 64

typedef struct {
    atomic_int size; /* 0 until all threads that could be started are there */
    atomic_int arrived, phase;
    void (*work)(void *, int64_t, void *);
    void *job;
} Team;

typedef struct {
    Team *team;
    int64_t thread;
} Member;

/* Continue when all are here. */
static void meet(Team *team) {
    int size = atomic_load_explicit(&team->size, memory_order_relaxed);
    if (size == 1)
        return;
    int phase = atomic_load(&team->phase);
    if (atomic_fetch_add(&team->arrived, 1) + 1 == size) {
        atomic_store(&team->arrived, 0);
        atomic_store(&team->phase, phase + 1);
        return;
    }
    for (int spins = 0; atomic_load(&team->phase) == phase; spins++)
        if (spins > 10000)
            sched_yield();
}

static void *join_team(void *argument) {
    Member *member = argument;
    while (atomic_load(&member->team->size) == 0)
        sched_yield();
    member->team->work(member->team->job, member->thread, member->team);
    return NULL;
}

/* The part of `total` that is this thread's. */
INLINE int64_t share(int64_t total, int64_t thread, const Team *team) {
    return total * thread / atomic_load_explicit(&team->size, memory_order_relaxed);
}

/* Run work(job, thread, team) in up to that many threads, one of which is the caller's. */
static void run_team(void (*work)(void *, int64_t, void *), void *job, int64_t num_threads) {
    Team team = {.work = work, .job = job};
    pthread_t threads[MOST_THREADS];
    Member members[MOST_THREADS];
    int started = 1;
    for (; started < num_threads && started < MOST_THREADS; started++) {
        members[started] = (Member){&team, started};
        if (pthread_create(&threads[started], NULL, join_team, &members[started]))
            break;
    }
    atomic_store(&team.size, started);
    work(job, 0, &team);
    for (int t = 1; t < started; t++)
        pthread_join(threads[t], NULL);
}
