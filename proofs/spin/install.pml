/* Giving a key its cell: claim, fence, verify, open. `src/keyed/insert/install.rs` and what it calls.
 *
 * Some threads install the same key at once. With BESIDE another key takes a cell beside them, and a sweep vacates claims
 * and words of keys that have become idle. Each read and each compare-and-swap of a cell is one step, and the checker tries every
 * order of all steps of all threads. A thread may also stand still for as long as the others need.
 *
 *   TWO_LIVE    at every opening the key has no other live cell
 *   CLAIM_LEFT  when all threads have ended, no cell holds a claim
 *
 * Memory is sequentially consistent here. The one order that weaker memory allows, and that the fence forbids, is in the
 * model as a fault: with NO_FENCE a thread's scan may see each cell as it was some time before the thread's own claim.
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

byte cell[CELLS];
byte nonce;
#ifdef BESIDE
byte running = INSTALLERS + 2;
#else
byte running = INSTALLERS;
#endif

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

/* The survey that chooses a cell is only a hint: whatever it has read, the claim is a compare-and-swap from the exact word.
 * So choice and claim are one step here, of any cell that is not the key's live one or another key's claim. A thread may
 * also find that the key has come, or no cell, or lose the cell: then it ends, or begins its next round. */
proctype Installer() {
  byte round, at, mine, i, seen, count, n;
  bool done;
#ifdef NO_FENCE
  byte stale[CELLS];
#endif

begins:
  if
  :: round == ROUNDS -> goto ended      /* the spill decides */
  :: round < ROUNDS -> goto ended
  :: round < ROUNDS -> round++
  fi;

#ifdef NO_FENCE
  d_step {
    i = 0;
    do
    :: i < CELLS -> stale[i] = cell[i]; i++
    :: else -> break
    od;
    i = 0
  };
#endif
  atomic {
    if
    :: at = 0
    :: at = 1
#if CELLS > 2
    :: at = 2
#endif
    fi;
    if
    :: cell[at] == LIVE || cell[at] == OTHER_CLAIM -> at = 0; goto ended
#ifdef HELP_WITHOUT_RECLAIM
    :: IS_CLAIM(cell[at]) -> mine = cell[at]; goto open
#endif
    :: else -> skip
    fi;
#ifdef EQUAL_NONCES
    mine = CLAIM;
#else
    mine = CLAIM + nonce; nonce++;
#endif
    cell[at] = mine
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
  :: count == 1 && cell[at] == mine -> count = 0; goto open
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
  skip;
  d_step { mine = 0; done = false; i = 0; at = 0; seen = 0 };
  goto begins;

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
#ifdef BESIDE
    run Other(); run Sweep();
#endif
    i = 0
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
