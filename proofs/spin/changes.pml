/* A key in the store while its policy changes: GCRA. The head of `crates/redis/src/script/decide.lua` has the argument.
 *
 * Nodes of several policies ask for one key, in any order and however often. The store keeps a state for each policy, at
 * most STATES of them. Every unit is charged to all states; a state has no more than its own limit of another policy's
 * units, and what is cut off is its excess. Time advances whenever it likes. A node gives back units of a charge at any
 * later time; that is what it does with the rest of a lease.
 *
 *   OVER_LARGEST  the debt of all charges, drained at the fastest rate of the policies that were asked, is never more than
 *                 the largest limit of these
 *
 * A unit is one part of a debt under every policy here, so rates are whole, and no conversion rounds.
 */

#ifndef POLICIES
#define POLICIES 3
#endif
#ifndef STATES
#define STATES 4
#endif
#ifndef END
#define END 3
#endif
/* For each policy: units that drain in a tick, and the limit. */
#ifndef WIDER
#define RATE(p) ((p) == 1 -> 2 : 1)
#define CAP(p) ((p) == 0 -> 3 : ((p) == 1 -> 2 : 1))
#else
#define RATE(p) ((p) == 0 -> 2 : ((p) == 1 -> 1 : 3))
#define CAP(p) ((p) == 0 -> 4 : ((p) == 1 -> 6 : 3))
#endif
#define LESS(a, b) ((a) > (b) -> (a) - (b) : 0)
#define LARGER(a, b) ((a) > (b) -> (a) : (b))
#define SMALLER(a, b) ((a) < (b) -> (a) : (b))

byte now;
/* The states: which policies have one, the last asked first, and of each its debt and excess. */
byte order[4], states;
byte debt[3], excess[3];
/* All charges together. */
byte owed, fastest, largest;
/* A charge of which units may come back: how many, of which policy, and how many ticks and units ago. */
byte lent, lent_by, passed, drained;

byte p, i, k, found, units, most, much, whole;
short best;

inline is_stored(policy) {
  found = 255; i = 0;
  do
  :: i < states -> found = (order[i] == policy -> i : found); i++
  :: else -> break
  od;
  i = 0
}

inline remove_at(place) {
  debt[order[place]] = 0; excess[order[place]] = 0;
  i = place;
  do
  :: i + 1 < states -> order[i] = order[i + 1]; i++
  :: else -> break
  od;
  states--; order[states] = 0; i = 0
}

inline put_first(policy) {
  i = states;
  do
  :: i > 0 -> order[i] = order[i - 1]; i--
  :: else -> break
  od;
  order[0] = policy; states++
}

/* One state too many: one that is over, or else the one asked longest ago that has not the largest limit. */
inline forget_one() {
  found = 255; k = 0; i = 1;
  do
  :: i < states ->
    found = (found == 255 && debt[order[i]] == 0 -> i : found);
    k = (CAP(order[i]) > CAP(order[k]) -> i : k);
    i++
  :: else -> break
  od;
  i = 0;
#ifdef LARGEST_FORGOTTEN
  k = 0;
#endif
  if
  :: found != 255 -> skip
  :: found == 255 && k == states - 1 -> found = states - 2
  :: else -> found = states - 1
  fi;
  remove_at(found); k = 0; found = 0
}

/* The state of the policy that asks comes first. A new one begins with the units of the one that has spent most of it. */
inline state_of(policy) {
  is_stored(policy);
  if
  :: found != 255 ->
    i = found;
    do
    :: i > 0 -> order[i] = order[i - 1]; i--
    :: else -> break
    od;
    order[0] = policy
  :: else ->
    best = -1; most = 0; whole = 0; i = 0;
    do
    :: i < states ->
      much = SMALLER(debt[order[i]], CAP(policy));
      whole = LARGER(whole, debt[order[i]] + excess[order[i]]);
      if
      :: best == -1 || much > most -> best = order[i]; most = much
      :: else -> skip
      fi;
      i++
    :: else -> break
    od;
    i = 0;
#ifdef BEGINS_ANEW
    best = -1;
#endif
    if
    :: best != -1 ->
      debt[policy] = most;
      excess[policy] = LARGER(excess[best] + debt[best] - most, LESS(whole, most))
    :: else -> debt[policy] = 0; excess[policy] = 0
    fi;
    put_first(policy);
    if
    :: states > STATES -> forget_one()
    :: else -> skip
    fi;
    most = 0; whole = 0; much = 0
  fi;
  found = 0; best = -1
}

inline charge(policy) {
  i = 0;
  do
  :: i < states ->
    k = order[i];
    if
    :: k == policy -> debt[k] = debt[k] + units
#ifndef ONE_STATE_CHARGED
    :: k != policy && debt[k] > 0 ->
      much = debt[k] + units;
      most = LARGER(debt[k], CAP(k));
      debt[k] = SMALLER(much, most);
#ifndef EXCESS_FORGOTTEN
      excess[k] = excess[k] + much - debt[k];
#endif
      much = 0; most = 0
#endif
    :: else -> skip
    fi;
    i++
  :: else -> break
  od;
  i = 0; k = 0
}

/* A state that has drained is left out, but not the one that is asked. */
inline store(policy) {
  k = states;
  do
  :: k > 0 ->
    k--;
    if
    :: order[k] != policy && debt[order[k]] == 0 -> remove_at(k)
    :: else -> skip
    fi
  :: else -> break
  od
}

/* Units that have drained since their charge, under either rate, do not come back. They come off the excess first. */
inline give_back() {
  i = 0;
  do
  :: i < states ->
    k = order[i];
    much = passed * LARGER(RATE(k), RATE(lent_by)) + LESS(debt[k], CAP(k));
#ifdef RETURNED_WHAT_DRAINED
    much = 0;
#endif
    much = LESS(units, much);
    most = SMALLER(excess[k], much);
    excess[k] = excess[k] - most;
    debt[k] = LESS(debt[k], much - most);
    i++
  :: else -> break
  od;
  i = 0; k = 0; much = 0; most = 0
}

active proctype Key() {
end:
  do
  /* A node asks, under any policy. */
  :: atomic {
       p = 0;
       do
       :: p + 1 < POLICIES -> p++
       :: break
       od;
       fastest = LARGER(fastest, RATE(p)); largest = LARGER(largest, CAP(p));
       state_of(p);
       much = LESS(CAP(p), debt[p]);
       if
       :: much == 0 -> units = 0
       :: much > 0 -> units = 1
       :: much > 1 -> units = 2
       fi;
       much = 0;
       charge(p); store(p);
       owed = owed + units;
       assert(owed <= largest);        /* OVER_LARGEST */
       if
       :: units > 0 -> lent = units; lent_by = p; passed = 0; drained = 0
       :: true -> skip
       fi;
       units = 0; p = 0
     }
  /* Units of a charge come back, if they have not drained. */
  :: atomic {
       lent > 0 ->
       units = lent;
       give_back(); store(255);
       owed = LESS(owed, LESS(units, drained));
       units = 0; lent = 0; lent_by = 0; passed = 0; drained = 0
     }
  :: atomic {
       now < END ->
       now++; i = 0;
       do
       :: i < 3 ->
         debt[i] = LESS(debt[i], RATE(i));
         excess[i] = (debt[i] == 0 -> 0 : excess[i]);
         i++
       :: else -> break
       od;
       i = 0;
       owed = LESS(owed, fastest);
       passed = (lent > 0 -> passed + 1 : 0);
       drained = (lent > 0 -> drained + fastest : 0)
     }
  od
}
