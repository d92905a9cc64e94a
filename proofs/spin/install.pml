/* Giving a key its cell: claim, fence, verify, open. `src/keyed/insert/install.rs` and what it calls.
 *
 * Some threads install the same key at once. Beside them another key takes a cell, and a sweep vacates claims, and words
 * of keys that have become idle. Each read and each compare-and-swap of a cell is one step, and the checker tries every
 * order of all steps of all threads. A thread may also stand still for as long as the others need.
 *
 *   TWO_LIVE    at every opening the key has no other live cell
 *   CLAIM_LEFT  when all threads have ended, no cell holds a claim
 *
 * Memory is sequentially consistent here. The one order that weaker memory allows, and that the fence forbids, is in the
 * model as a fault: with NO_FENCE a thread's scan may see each cell as it was before the thread's own claim.
 */

#ifndef INSTALLERS
#define INSTALLERS 3
#endif
#ifndef CELLS
#define CELLS 2
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif

/* A word. Claims of the key are told apart by their nonce. */
#define VACANT 0
#define LIVE 1          /* the key */
#define OTHER_LIVE 2    /* another key, which is idle */
#define OTHER_CLAIM 3
#define CLAIM 4         /* and the nonce */
#define IS_CLAIM(word) (word >= CLAIM)
#define NONE 255

byte cell[CELLS];
byte nonce;
byte running = INSTALLERS + 2;

inline swap(at, from, to, done) {
  d_step {
    if
    :: cell[at] == from -> cell[at] = to; done = true
    :: else -> done = false
    fi
  }
}

inline assert_one_live(at) {
  d_step {
    n = 0;
    do
    :: n < CELLS -> assert(n == at || cell[n] != LIVE); n++     /* TWO_LIVE */
    :: else -> break
    od;
    n = 0
  }
}

proctype Installer() {
  byte round, at, word, mine, i, seen, count, n;
  bool done;
#ifdef NO_FENCE
  byte stale[CELLS];
#endif

round_begins:
  if
  :: round == ROUNDS -> goto ended      /* the spill decides */
  :: else -> round++
  fi;

  /* The choice of a cell: a claim of the key, the lowest; or a vacant cell, any; or the cell of an idle key. */
  at = NONE;
  if
  :: round == 1 ->      /* the hint that a cell is vacant, which may be wrong */
    word = VACANT;
    if
    :: at = 0
    :: at = CELLS - 1
    fi
  :: true ->
    i = 0;
    do
    :: i < CELLS ->
      atomic {
        seen = cell[i];
        if
        :: seen == LIVE -> goto ended   /* the key has come: it is decided there */
        :: IS_CLAIM(seen) && (at == NONE || !IS_CLAIM(word)) -> at = i; word = seen
        :: seen == VACANT && (at == NONE || !IS_CLAIM(word)) -> at = i; word = seen
        :: seen == VACANT && at != NONE -> skip
        :: seen == OTHER_LIVE && at == NONE -> at = i; word = seen
        :: else -> skip
        fi;
        i++
      }
    :: else -> break
    od;
    seen = 0; i = 0
  fi;
  if
  :: at == NONE -> goto ended
  :: else -> skip
  fi;

#ifdef HELP_WITHOUT_RECLAIM
  if
  :: IS_CLAIM(word) -> mine = word; goto open
  :: else -> skip
  fi;
#endif

  /* Claim. */
  atomic {
#ifdef EQUAL_NONCES
    mine = CLAIM;
#else
    mine = CLAIM + nonce; nonce++;
#endif
#ifdef NO_FENCE
    i = 0;
    do
    :: i < CELLS -> stale[i] = cell[i]; i++
    :: else -> break
    od;
    i = 0;
#endif
    if
    :: cell[at] == word -> cell[at] = mine; word = 0
    :: else -> mine = 0; word = 0; goto lost
    fi
  }

#ifdef NO_VERIFY
  goto open;
#endif

  /* The first scan counts the words of the key, behind the fence. */
#ifdef NO_FENCE
#define LOAD(i) if :: seen = cell[i] :: i != at -> seen = stale[i] fi
#else
#define LOAD(i) seen = cell[i]
#endif
  i = 0; count = 0;
  do
  :: i < CELLS ->
    atomic {
      LOAD(i);
      if
      :: seen == LIVE || IS_CLAIM(seen) -> count++
      :: else -> skip
      fi;
      i++; seen = 0
    }
  :: else -> break
  od;
  i = 0;
  if
#ifdef COUNT_WITHOUT_OWN
  :: count == 1 -> count = 0; goto open
#else
  :: count == 1 && cell[at] == mine -> count = 0; goto open
#endif
  :: else -> count = 0
  fi;

  /* The second scan judges each of them. */
  do
  :: i < CELLS ->
    atomic { LOAD(i) };
    if
#ifndef VERIFY_IGNORES_LIVE
    :: seen == LIVE -> goto give_back
#endif
#ifndef VERIFY_IGNORES_LOWER
    :: IS_CLAIM(seen) && i < at -> goto give_back
#endif
#ifndef VERIFY_IGNORES_HIGHER
    :: IS_CLAIM(seen) && i > at ->
      swap(i, seen, VACANT, done);
      if
      :: !done -> goto give_back
      :: else -> skip
      fi
#endif
    :: else -> skip
    fi;
    i++; seen = 0; done = false
  :: else -> break
  od;
  i = 0;

open:
#ifdef OPEN_WITHOUT_EXACT_WORD
  mine = cell[at];
#endif
  atomic {
    if
    :: cell[at] == mine -> cell[at] = LIVE; assert_one_live(at); goto ended
    :: else -> goto lost
    fi
  }

give_back:
#ifndef GIVE_BACK_FORGOTTEN
  swap(at, mine, VACANT, done);
#endif

lost:
  /* Another thread may have opened the key. */
  mine = 0; done = false; i = 0;
  do
  :: i < CELLS ->
    atomic {
      if
      :: cell[i] == LIVE -> goto ended
      :: else -> i++
      fi
    }
  :: else -> break
  od;
  i = 0; at = 0;
  goto round_begins;

ended:
  running--
}

/* Another key: it claims a vacant cell, and opens it or gives it back. */
proctype Other() {
  byte at;
  bool done;
  if
  :: at = 0
  :: at = CELLS - 1
  fi;
  swap(at, VACANT, OTHER_CLAIM, done);
  if
  :: done ->
    if
    :: swap(at, OTHER_CLAIM, OTHER_LIVE, done)
    :: swap(at, OTHER_CLAIM, VACANT, done)
    fi
  :: else -> skip
  fi;
  running--
}

/* A sweep, or a change of quota: it vacates claims, and the words of keys that are idle, by the exact word. */
proctype Sweep() {
  byte i, seen;
  bool done;
  do
  :: i < CELLS ->
    seen = cell[i];
    if
    :: seen == VACANT -> skip
    :: seen != VACANT -> swap(i, seen, VACANT, done)
    :: seen == LIVE || seen == OTHER_LIVE -> skip       /* it is busy */
    fi;
    i++; seen = 0; done = false
  :: else -> break
  od;
  running--
}

init {
  byte i;
  atomic {
    /* Any cells at first: vacant, or an idle key's. */
    do
    :: i < CELLS ->
      if
      :: cell[i] = VACANT
      :: cell[i] = OTHER_LIVE
      fi;
      i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < INSTALLERS -> run Installer(); i++
    :: else -> break
    od;
    run Other(); run Sweep()
  }
  running == 0;
  d_step {
    i = 0;
    do
    :: i < CELLS -> assert(!IS_CLAIM(cell[i]) && cell[i] != OTHER_CLAIM); i++   /* CLAIM_LEFT */
    :: else -> break
    od
  }
}
