/* Leases: nodes spend units that the store has charged before. `crates/redis/src/leased` and the store's script.
 *
 * Nodes share a limit of a fixed window. A node asks the store for a lease, and spends its units one by one. Each message,
 * a request, a reply or a refund, may be lost, or come as late as it likes, in any order. A node may stop waiting for a
 * reply, and ask again. Time advances whenever it likes, and a window turns after every W ticks. With POLICIES nodes change
 * to and fro between two limits at any moment, and give back what they hold under an older one. A node that dies is one
 * that does nothing any more.
 *
 *   OVER_LIMIT   in no window are more units spent than the largest limit that was asked for in it
 *
 * The store grants any number of units that fits; the code grants one of these. It keeps a count for each policy. Time is
 * the same everywhere: clocks that drift are not in the model, nor is the local share, which admits by itself while the
 * store is away.
 */

#ifndef NODES
#define NODES 2
#endif
#ifndef W
#define W 2
#endif
#ifndef END
#define END 4               /* two windows */
#endif
#ifndef LIMIT
#define LIMIT 2
#endif
/* The newer policy has the lower limit. */
#define LIMIT_OF(era) (LIMIT - era)
#define WINDOW (now / W)

/* What a slot of a node's messages holds. */
#define NOTHING 0
#define REQUEST 1
#define REPLY 2
#define REFUND 3

byte now;
byte window;        /* of the store's counts */
byte count[2];
bool stored[2];     /* whether the store has a state of the policy */
byte spent;         /* in the window of now */
byte largest;

/* The store's states at this time: those of a window that is over are gone. */
inline stand() {
  if
  :: window < WINDOW -> window = WINDOW; count[0] = 0; count[1] = 0; stored[0] = false; stored[1] = false
  :: else -> skip
  fi
}

/* The store charges up to `most` units. A policy that the key has not seen begins with the count of the other. */
inline charge(era, most) {
  stand();
  if
  :: !stored[era] ->
#ifndef BEGINS_ANEW
    count[era] = count[1 - era];
#endif
    stored[era] = true
  :: else -> skip
  fi;
  largest = (LIMIT_OF(era) > largest -> LIMIT_OF(era) : largest);
  room = (LIMIT_OF(era) > count[era] -> LIMIT_OF(era) - count[era] : 0);
  if
  :: room == 0 -> granted = 0
  :: room > 0 -> granted = 1
  :: room > 1 && most > 1 -> granted = 2
  fi;
  room = 0;
  count[era] = count[era] + granted;
#ifndef ONE_STATE_CHARGED
  count[1 - era] = (stored[1 - era] -> count[1 - era] + granted : 0);
#endif
}

inline clear(s) {
  kind[s] = NOTHING; units[s] = 0; at[s] = 0; of_window[s] = 0; era_of[s] = 0
}

inline drop_lease() {
  left = 0; until = 0; stamp = 0; lease_era = 0
}

proctype Node() {
  /* The first slot is the request that the node waits for, and its reply. The second is what it does not wait for: a
   * request that it has given up, or a refund. */
  byte kind[2], units[2], of_window[2];
  byte at[2];       /* of a request: when it was asked; of a reply: when its lease ends */
  bit era_of[2];
  bit era;
  byte left, until, stamp;
  bit lease_era;
  byte room, granted;

end:
  do
  /* The node spends a unit. */
  :: atomic {
       left > 0 && now < until && now < END ->
       left--; spent++;
       assert(spent <= largest);        /* OVER_LIMIT */
       if
       :: left == 0 -> drop_lease()
       :: else -> skip
       fi
     }

  /* It asks for a lease. */
  :: atomic {
       kind[0] == NOTHING && left < 2 && now < END ->
       kind[0] = REQUEST; at[0] = now; era_of[0] = era;
#ifdef SPENT_BEFORE_CHARGED
       left++; until = (WINDOW + 1) * W; stamp = WINDOW; lease_era = era
#endif
     }
  /* It waits no longer. The request may still be carried out, but nobody reads its reply. */
  :: atomic { kind[0] == REQUEST && kind[1] == NOTHING -> kind[1] = REQUEST; era_of[1] = era_of[0]; clear(0) }
  /* A request, a reply or a refund is lost, or a reply that comes is dropped, since the node no longer waits. */
  :: atomic { kind[0] != NOTHING -> clear(0) }
  :: atomic { kind[1] != NOTHING -> clear(1) }

#ifdef POLICIES
  :: atomic { now < END -> era = 1 - era }
#endif

  /* The units of a lease that has ended, or is of an older policy, are given back; or they are lost. */
  :: atomic {
       left > 0 && (now >= until || lease_era < era) && kind[1] == NOTHING && now < END ->
       kind[1] = REFUND; units[1] = left; of_window[1] = stamp; era_of[1] = lease_era;
#ifndef KEEPS_WHAT_IT_RETURNS
       drop_lease()
#endif
     }
  :: atomic { left > 0 && now >= until -> drop_lease() }

  /* The store carries out a request. */
  :: atomic {
       kind[0] == REQUEST && now < END ->
       charge(era_of[0], 2);
       if
       :: granted == 0 -> clear(0)
       :: else ->
         kind[0] = REPLY; units[0] = granted; of_window[0] = WINDOW;
#ifdef ENDS_COUNTED_FROM_REPLY
         at[0] = (WINDOW + 1) * W - now
#else
#ifdef ENDS_WITHOUT_WINDOW
         at[0] = at[0] + W
#else
         /* The time to the window's end, counted from when the lease was asked for. */
         at[0] = at[0] + (WINDOW + 1) * W - now
#endif
#endif
       fi;
       granted = 0
     }
  :: atomic { kind[1] == REQUEST && now < END -> charge(era_of[1], 2); granted = 0; clear(1) }
  /* A refund lowers the counts of both policies, if the window is still the one of the charge. */
  :: atomic {
       kind[1] == REFUND && now < END ->
       stand();
       if
#ifdef RETURNED_TO_ANY_WINDOW
       :: true ->
#else
       :: window == of_window[1] ->
#endif
         count[0] = (count[0] > units[1] -> count[0] - units[1] : 0);
         count[1] = (count[1] > units[1] -> count[1] - units[1] : 0)
#ifndef RETURNED_TO_ANY_WINDOW
       :: else -> skip
#endif
       fi;
       clear(1)
     }

  /* The reply comes. A second lease is added to the first; both end when the earlier one would, and count as charged
   * when the earlier one was. */
  :: atomic {
       kind[0] == REPLY ->
#ifdef ENDS_COUNTED_FROM_REPLY
       at[0] = at[0] + now;
#endif
       until = (left == 0 || at[0] < until -> at[0] : until);
       stamp = (left == 0 || of_window[0] < stamp -> of_window[0] : stamp);
       lease_era = (left == 0 || era_of[0] < lease_era -> era_of[0] : lease_era);
       left = left + units[0];
#ifdef REPLY_ENTERED_TWICE
       if
       :: clear(0)
       :: kind[0] == REPLY && left < 3 -> skip
       fi
#else
       clear(0)
#endif
     }
  od
}

proctype Clock() {
  do
  :: atomic {
       now < END ->
       now++;
       if
       :: now % W == 0 -> spent = 0; largest = 0
       :: else -> skip
       fi
     }
  :: else -> break
  od
}

init {
  byte i;
  atomic {
    run Clock();
    do
    :: i < NODES -> run Node(); i++
    :: else -> break
    od;
    i = 0
  }
}
