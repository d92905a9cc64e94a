// Keeps the stacks of loom's threads, which loom maps anew for each execution: twice as many executions in a second.
//
// An execution takes tens of microseconds, and more than half of them were spent in the kernel, which mapped, cleared
// and unmapped a stack for each thread. This library is loaded before libc (LD_PRELOAD, see `.ci/run loom`). A mapping
// that is asked for as a stack is not unmapped but kept, and handed out again when one of its size is asked for. The
// models run without it, too, and explore the same executions.
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { STACKS_MAX = 64 }; // Loom has at most five threads in an execution. Any further stack is unmapped as usual.

struct stack {
  void *start; // NULL in a free slot
  size_t size;
};

static struct stack kept[STACKS_MAX], in_use[STACKS_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// Takes out the stack of this size that starts here, or anywhere if `start` is NULL.
static void *take(struct stack *stacks, void *start, size_t size) {
  for (struct stack *stack = stacks; stack < stacks + STACKS_MAX; stack++) {
    if (stack->start && stack->size == size && (!start || stack->start == start)) {
      void *taken = stack->start;
      stack->start = NULL;
      return taken;
    }
  }
  return NULL;
}

// Returns 0 if there is no room.
static int put(struct stack *stacks, void *start, size_t size) {
  for (struct stack *stack = stacks; stack < stacks + STACKS_MAX; stack++) {
    if (!stack->start) {
      *stack = (struct stack){start, size};
      return 1;
    }
  }
  return 0;
}

void *mmap(void *start, size_t size, int protection, int flags, int file, off_t offset) {
  if (start || !(flags & MAP_STACK)) {
    return (void *)syscall(SYS_mmap, start, size, protection, flags, file, offset);
  }
  pthread_mutex_lock(&lock);
  void *stack = take(kept, NULL, size);
  if (!stack) {
    stack = (void *)syscall(SYS_mmap, start, size, protection, flags, file, offset);
  }
  if (stack != MAP_FAILED) {
    put(in_use, stack, size);
  }
  pthread_mutex_unlock(&lock);
  return stack;
}

int munmap(void *start, size_t size) {
  pthread_mutex_lock(&lock);
  int is_kept = start && take(in_use, start, size) && put(kept, start, size);
  pthread_mutex_unlock(&lock);
  return is_kept ? 0 : (int)syscall(SYS_munmap, start, size);
}
