(** * Counts: visits, windows and neighbours

    D is a list of the accepted visits at one location. Kafka stamped the record of a visit in slot [stamp], and the
    visit ends in slot [last]. *)

From Coq Require Import ZArith List Bool Lia.
Import ListNotations.
Open Scope Z_scope.

Record visit := { person : Z; stamp : Z; last : Z }.

(** The window of tick t is the last W slots. A tick counts what was stamped in its slot or before. A visit is cut
    to the end of slot [stamp] + F. *)
Definition in_window (window max_lead tick : Z) (v : visit) : bool :=
  (stamp v <=? tick) && (tick - window + 1 <=? Z.min (last v) (stamp v + max_lead)).

(** The number of distinct people with a visit that [counts]. *)
Definition people (counts : visit -> bool) (D : list visit) : list Z := nodup Z.eq_dec (map person (filter counts D)).
Definition count (counts : visit -> bool) (D : list visit) : Z := Z.of_nat (length (people counts D)).

(** A P-neighbour of D is D without some or all visits of one person. *)
Definition P_neighbour (someone : Z) (D D' : list visit) : Prop :=
  incl D' D /\ forall v, In v D -> In v D' \/ person v = someone.

(** D' lacks visits of one person that Kafka stamped in slots [first] to [first] + [slots] - 1, and nothing else. *)
Definition lacks_visits (first slots : Z) (D D' : list visit) : Prop :=
  (exists someone, P_neighbour someone D D') /\
  forall v, In v D -> In v D' \/ first <= stamp v < first + slots.

Lemma in_people counts D x : In x (people counts D) <-> exists v, person v = x /\ In v D /\ counts v = true.
Proof.
  unfold people. rewrite nodup_In, in_map_iff. split; intros [v [is_x found]]; exists v; split; trivial.
  - now apply filter_In.
  - now apply filter_In.
Qed.

(** Without a person's visits no count rises, and each falls by one at most. *)
Lemma count_falls_by_one_at_most someone counts D D' :
  P_neighbour someone D D' -> count counts D' <= count counts D <= count counts D' + 1.
Proof.
  intros [fewer others]. unfold count. split.
  - apply inj_le, NoDup_incl_length; [apply NoDup_nodup|]. intros x. rewrite !in_people.
    intros [v [is_x [found counted]]]. exists v. auto.
  - replace (Z.of_nat (length (people counts D')) + 1) with (Z.of_nat (length (someone :: people counts D')))
      by (simpl length; lia).
    apply inj_le, NoDup_incl_length; [apply NoDup_nodup|]. intros x. rewrite in_people.
    intros [v [is_x [found counted]]]. destruct (others v found) as [kept | own]; [right | left; congruence].
    apply in_people. now exists v.
Qed.

(** A count that contains none of the visits that D' lacks is the same without them. *)
Lemma other_counts_stay first slots counts D D' :
  lacks_visits first slots D D' ->
  (forall v, counts v = true -> ~ first <= stamp v < first + slots) ->
  count counts D = count counts D'.
Proof.
  intros [[someone [fewer _]] rest] none. unfold count. f_equal.
  apply Nat.le_antisymm; apply NoDup_incl_length; try apply NoDup_nodup; intros x; rewrite !in_people;
    intros [v [is_x [found counted]]]; exists v; repeat split; auto.
  destruct (rest v found) as [|stamped]; [assumption|]. now elim (none v counted).
Qed.

(** A visit stamped in slot c is in the counts of the ticks c … c + F + W - 1 at most: W + F ticks. *)
Lemma ticks_that_count window max_lead tick v :
  in_window window max_lead tick v = true -> stamp v <= tick <= stamp v + max_lead + window - 1.
Proof. unfold in_window. rewrite andb_true_iff, !Z.leb_le. lia. Qed.
