(** * Algorithm 4: all locations at a designated time τ

    The definitions are those of [monitor/privacy/at_times.py]. Every location is evaluated at every tick, so a tick
    is a sequence of evaluations, each with fresh noise. Here an adversary chooses which location is evaluated next. *)

From Coq Require Import ZArith QArith Qreals Reals List Bool Lia Lra.
From Kernel Require Import Noise Runs Counts.
Import ListNotations.
Open Scope Z_scope.

(** ** Definitions *)

(** A location is listed in the snapshots of τ from its first noisy count on. It is marked when its ε is spent. *)
Inductive answer := Unlisted | Listed (place noisy_count : Z) | Marked | Unknown.

(** A noisy count of a location: its tick, and its ε. *)
Record number := { drawn_at : Z; charged : Q }.

Fixpoint sum_charged (numbers : list number) : Q :=
  match numbers with
  | [] => 0
  | n :: rest => charged n + sum_charged rest
  end.

Definition share (epsilon : Q) (answers : positive) : Q := epsilon * (1 # answers).

(** At the tick of a noisy count, or before it, nothing was reported since. If the result is [false], a location is
    marked. *)
Definition may_answer (epsilon : Q) (answers : positive) (numbers : list number) (t : Z) : bool :=
  forallb (fun n => drawn_at n <? t) numbers && Qle_bool (sum_charged numbers + share epsilon answers) epsilon.

(** A count has only what was stamped after the latest tick of a noisy count. *)
Definition find_count_start (numbers : list number) : option Z :=
  match numbers with
  | [] => None
  | n :: rest => Some (fold_right Z.max (drawn_at n) (map drawn_at rest))
  end.

(** The answer of an unmarked location, if its count plus noise is [z]. *)
Definition answer_sum (threshold place z : Z) : answer := if z <? threshold then Unlisted else Listed place z.

(** [count] is [None] if the input is incomplete. *)
Definition step (threshold place : Z) (marked : bool) (count : option Z) (noise : Z) : answer :=
  match count with
  | None => Unknown
  | Some f => if marked then Marked else answer_sum threshold place (f + noise)
  end.

(** The program decides with a biased coin whether the noise reaches the gap up to T, and draws the rest only then.
    [memoryless] in [Noise.v] shows that the coin and the rest have these chances. *)
Definition gap (threshold f : Z) : Z := Z.max (threshold - f) 0.
Definition draw (threshold place f : Z) (reached : bool) (rest : Z) : answer :=
  if reached then Listed place (Z.max f threshold + rest) else Unlisted.

Lemma draw_is_step threshold place f noise :
  0 <= noise ->
  draw threshold place f (gap threshold f <=? noise) (noise - gap threshold f) =
  step threshold place false (Some f) noise.
Proof.
  intros sign. unfold draw, step, answer_sum, gap.
  destruct (Z.leb_spec (Z.max (threshold - f) 0) noise), (Z.ltb_spec (f + noise) threshold);
    [exfalso; lia | f_equal; lia | reflexivity | exfalso; lia].
Qed.

(** ** What is published is true *)

(** Promise 2: "If a location with the count f is evaluated and not listed, f < T." *)
Theorem unlisted_is_safe threshold place marked f noise :
  0 <= noise -> step threshold place marked (Some f) noise = Unlisted -> f < threshold.
Proof.
  unfold step, answer_sum. destruct marked; [discriminate|].
  destruct (Z.ltb_spec (f + noise) threshold); [lia | discriminate].
Qed.

(** Promise 2: "With incomplete input the answer is `unknown`." *)
Theorem incomplete_is_unknown threshold place marked noise : step threshold place marked None noise = Unknown.
Proof. reflexivity. Qed.

(** Promise 3: "A noisy count that is computed from the count f is at least f and at least T." *)
Theorem listed_count_is_a_bound threshold place marked f noise place' z :
  0 <= noise -> step threshold place marked (Some f) noise = Listed place' z -> f <= z /\ threshold <= z.
Proof.
  unfold step, answer_sum. destruct marked; [discriminate|].
  destruct (Z.ltb_spec (f + noise) threshold); [discriminate|]. intros sign answered. injection answered. lia.
Qed.

(** ** What a person pays *)

Definition same_answer (a b : answer) : {a = b} + {a <> b}.
Proof. repeat decide equality. Defined.

(** The next evaluation: a location, the tick, the rule in force, and whether the input is complete. *)
Record choice := { place : Z; at_tick : Z; epsilon : Q; answers : positive; threshold : Z; complete : bool }.
Definition adversary := list answer -> choice.

Definition answer_epsilon (c : choice) : Q := share (epsilon c) (answers c).

Definition lists (somewhere : Z) (a : answer) : bool :=
  match a with Listed listed _ => listed =? somewhere | _ => false end.

(** The noisy counts of a location in the ledger. *)
Fixpoint ledger (A : adversary) (somewhere : Z) (run : list answer) : list number :=
  match run with
  | [] => []
  | a :: before =>
      let earlier := ledger A somewhere before in
      if lists somewhere a then {| drawn_at := at_tick (A before); charged := answer_epsilon (A before) |} :: earlier
      else earlier
  end.

Definition is_since (start : option Z) (v : visit) : bool :=
  match start with
  | None => true
  | Some a => a <? stamp v
  end.

(** D has for each location the accepted visits that cover τ. A tick counts what was stamped in its slot or before, and
    after the latest noisy count. *)
Definition counts (A : adversary) (run : list answer) (v : visit) : bool :=
  (stamp v <=? at_tick (A run)) && is_since (find_count_start (ledger A (place (A run)) run)) v.
Definition count_at (A : adversary) (D : Z -> list visit) (run : list answer) : option Z :=
  if complete (A run) then Some (count (counts A run) (D (place (A run)))) else None.

Definition is_marked (A : adversary) (run : list answer) : bool :=
  negb (may_answer (epsilon (A run)) (answers (A run)) (ledger A (place (A run)) run) (at_tick (A run))).

Definition at_times (A : adversary) (D : Z -> list visit) : mechanism answer :=
  {| noise_at := fun run => answer_epsilon (A run);
     decide := fun run g =>
       step (threshold (A run)) (place (A run)) (is_marked A run) (count_at A D run) (Z.of_nat g) |}.

(** A noisy count of the location at which the person was costs its ε, if its tick may count the removed visits.
    Nothing else costs anything. *)
Definition cost (counting : list answer -> bool) (home : Z) (A : adversary) (run : list answer) (a : answer) : Q :=
  if lists home a && counting run then answer_epsilon (A run) else 0.

Section Costs.
  Variables (A : adversary) (D D' : Z -> list visit) (home someone : Z) (counting : list answer -> bool).

  Hypothesis epsilons : forall run, (0 < epsilon (A run))%Q.
  Hypothesis neighbour : P_neighbour someone (D home) (D' home).
  Hypothesis one_place : forall elsewhere, elsewhere <> home -> D elsewhere = D' elsewhere.
  Hypothesis others_stay : forall run,
    place (A run) = home -> counting run = false -> count_at A D run = count_at A D' run.

  Lemma answer_epsilon_is_positive run : (0 < answer_epsilon (A run))%Q.
  Proof. unfold answer_epsilon, share. now apply Qmult_lt_0_compat. Qed.

  Lemma noise_is_positive run : (0 < Q2R (answer_epsilon (A run)))%R.
  Proof. rewrite <- RMicromega.Q2R_0. apply Qlt_Rlt, answer_epsilon_is_positive. Qed.

  Lemma cost_is_not_negative run a : (0 <= cost counting home A run a)%Q.
  Proof.
    unfold cost. destruct (lists home a && counting run); [|apply Qle_refl]. apply Qlt_le_weak.
    apply answer_epsilon_is_positive.
  Qed.

  (** The answer as a function of the sum of the count and the noise. *)
  Definition gives (run : list answer) (a : answer) (z : Z) : bool :=
    if same_answer (step (threshold (A run)) (place (A run)) (is_marked A run) (Some z) 0) a then true else false.

  Lemma chance_of_sum E run f a p :
    count_at A E run = Some f -> answer_chance same_answer (at_times A E) run a p ->
    sum_chance (Q2R (answer_epsilon (A run))) f (gives run a) p.
  Proof.
    unfold answer_chance. simpl. intros ->. apply chance_of_same_event. intros g. unfold gives, step.
    now rewrite Z.add_0_r.
  Qed.

  Lemma answer_costs run a p p' :
    answer_chance same_answer (at_times A D) run a p -> answer_chance same_answer (at_times A D') run a p' ->
    (p <= exp (Q2R (cost counting home A run a)) * p')%R.
  Proof.
    intros chance_D chance_D'. pose proof (noise_is_positive run) as positive.
    assert (free : (p <= p')%R -> (p <= exp (Q2R (cost counting home A run a)) * p')%R).
    { intros less. apply a_cost_only_helps; [assumption | eapply chance_is_not_negative; eassumption |].
      apply cost_is_not_negative. }
    assert (equal : count_at A D run = count_at A D' run -> (p <= p')%R).
    { unfold answer_chance in *. simpl in *. intros same. rewrite <- same in chance_D'. apply Req_le.
      eapply chance_is_unique; eassumption. }
    destruct (Z.eq_dec (place (A run)) home) as [here | elsewhere];
      [|apply free, equal; unfold count_at; now rewrite (one_place _ elsewhere)].
    destruct (counting run) eqn:counted; [|now apply free, equal, others_stay].
    destruct (complete (A run)) eqn:is_complete; [|apply free, equal; unfold count_at; now rewrite is_complete].
    pose proof (count_falls_by_one_at_most someone (counts A run) _ _ neighbour) as near.
    eapply chance_of_sum in chance_D, chance_D'; try (unfold count_at; now rewrite is_complete, here).
    unfold cost in *. rewrite counted, andb_true_r in *.
    destruct (lists home a) eqn:listed; [eapply higher_count_costs_epsilon; eassumption|].
    apply free. refine (higher_count_makes_safe_rarer _ positive _ _ (gives run a) p p' _ _ chance_D chance_D'); [lia|].
    intros z z' lower. unfold gives, step, answer_sum. rewrite !Z.add_0_r. destruct (is_marked A run); [trivial|].
    destruct (Z.ltb_spec z (threshold (A run))) as [is_safe|].
    - now rewrite (proj2 (Z.ltb_lt z' (threshold (A run)))) by lia.
    - destruct (same_answer _ a) as [<-|]; [|discriminate]. simpl in listed. now rewrite here, Z.eqb_refl in listed.
  Qed.

  (** Only a location that is not marked is listed with a new noisy count. *)
  Lemma listed_answer run a :
    lists home a = true -> (exists g, decide (at_times A D) run g = a) ->
    place (A run) = home /\
    may_answer (epsilon (A run)) (answers (A run)) (ledger A home run) (at_tick (A run)) = true.
  Proof.
    intros listed [g gives_a]. destruct a as [|there z| |]; try discriminate. apply Z.eqb_eq in listed. subst there.
    simpl in gives_a. unfold step, answer_sum in gives_a. destruct (count_at A D run); [|discriminate].
    destruct (is_marked A run) eqn:unmarked; [discriminate|]. destruct (_ <? _); [discriminate|].
    injection gives_a as here _. split; [assumption|]. unfold is_marked in unmarked. rewrite here in unmarked.
    now apply negb_false_iff in unmarked.
  Qed.
End Costs.

(** All noisy counts of a location cost what the ledger has, which is never above ε. *)
Lemma costs_are_in_the_ledger A home run :
  (sum_costs (cost (fun _ => true) home A) run == sum_charged (ledger A home run))%Q.
Proof.
  induction run as [|a before IH]; [reflexivity|]. simpl. unfold cost at 2. rewrite andb_true_r.
  destruct (lists home a); simpl; rewrite IH; ring.
Qed.

(** Promise 12: "For one τ, and visits of one person at one place, the loss of every run is at most the largest ε."
    [D home] and [D' home] are the visits at this place. *)
Theorem designated_time_costs_epsilon A D D' home someone most :
  (forall run, 0 < epsilon (A run) <= most)%Q ->
  P_neighbour someone (D home) (D' home) -> (forall elsewhere, elsewhere <> home -> D elsewhere = D' elsewhere) ->
  forall run p p',
  run_chance same_answer (at_times A D) run p -> run_chance same_answer (at_times A D') run p' ->
  (p <= exp (Q2R most) * p')%R.
Proof.
  intros epsilons neighbour one_place run. assert (positive : forall run, (0 < epsilon (A run))%Q) by apply epsilons.
  apply loss_is_at_most with (cost (fun _ => true) home A); try exact (noise_is_positive A positive).
  - apply (answer_costs A D D' home someone); trivial. discriminate.
  - induction run as [|a before IH].
    + intros _. apply Qlt_le_weak, Qlt_le_trans with (epsilon (A [])); apply epsilons.
    + intros [earlier gives_a]. specialize (IH earlier). simpl. unfold cost at 2. rewrite andb_true_r.
      destruct (lists home a) eqn:listed; [|now rewrite Qplus_0_r].
      destruct (listed_answer A D home before a listed gives_a) as [_ may].
      apply andb_prop in may. destruct may as [_ affordable]. apply Qle_bool_iff in affordable.
      rewrite costs_are_in_the_ledger. refine (Qle_trans _ _ _ affordable _). apply epsilons.
Qed.

(** Whether a tick may count what was stamped in a slot. *)
Definition counts_slot (A : adversary) (slot : Z) (run : list answer) : bool :=
  counts A run {| person := 0; stamp := slot; last := 0 |}.

Lemma start_is_latest n rest : forall x, In x (n :: rest) ->
  drawn_at x <= fold_right Z.max (drawn_at n) (map drawn_at rest).
Proof.
  induction rest as [|y rest IH]; intros x; simpl.
  - intros [<- | []]. lia.
  - specialize (IH x). simpl in IH. intros [<- | [<- | found]]; [|lia|].
    + assert (drawn_at n <= fold_right Z.max (drawn_at n) (map drawn_at rest)); [|lia]. clear IH.
      induction rest; simpl; lia.
    + pose proof (IH (or_intror found)). lia.
Qed.

(** Promise 12: "A record is in at most one noisy count about τ, so it costs at most the largest ε/k." D' lacks visits of
    one person at one place that Kafka stamped in one slot. *)
Theorem record_costs_one_answer A D D' home slot most :
  (forall run, 0 < epsilon (A run))%Q -> (forall run, answer_epsilon (A run) <= most)%Q ->
  lacks_visits slot 1 (D home) (D' home) -> (forall elsewhere, elsewhere <> home -> D elsewhere = D' elsewhere) ->
  forall run p p',
  run_chance same_answer (at_times A D) run p -> run_chance same_answer (at_times A D') run p' ->
  (p <= exp (Q2R most) * p')%R.
Proof.
  intros positive at_most lacks one_place run. destruct (proj1 lacks) as [someone neighbour].
  apply loss_is_at_most with (cost (counts_slot A slot) home A); try exact (noise_is_positive A positive).
  - apply (answer_costs A D D' home someone); trivial. intros before _ other. unfold count_at.
    destruct (complete (A before)); [|reflexivity]. f_equal. destruct (Z.eq_dec (place (A before)) home) as [-> | elsewhere].
    + apply (other_counts_stay slot 1); [assumption|]. intros v counted stamped.
      assert (same : stamp v = slot) by lia. unfold counts_slot, counts, is_since in *. simpl in other.
      now rewrite same, other in counted.
    + now rewrite one_place.
  - intros run_possible.
    enough (sum_costs (cost (counts_slot A slot) home A) run <= most /\
      (Forall (fun n => (drawn_at n < slot)%Z) (ledger A home run) -> sum_costs (cost (counts_slot A slot) home A) run == 0))%Q
      by tauto.
    induction run as [|a before IH].
    + split; [|reflexivity]. refine (Qle_trans _ _ _ _ (at_most [])). apply Qlt_le_weak, answer_epsilon_is_positive, positive.
    + destruct run_possible as [earlier gives_a]. destruct (IH earlier) as [bounded nothing]. simpl. unfold cost at 2 4.
      destruct (lists home a) eqn:listed; simpl; [|rewrite Qplus_0_r; now split].
      destruct (listed_answer A D home before a listed gives_a) as [here _].
      destruct (counts_slot A slot before) eqn:counted.
      2: { rewrite Qplus_0_r. split; [assumption|]. intros all. apply nothing. now inversion all. }
      unfold counts_slot, counts in counted. rewrite here in counted. simpl in counted. apply andb_prop in counted.
      destruct counted as [stamped since]. apply Z.leb_le in stamped. split.
      * rewrite nothing; [rewrite Qplus_0_l; apply at_most|]. apply Forall_forall. intros n found.
        unfold find_count_start, is_since in since. destruct (ledger A home before) as [|first others]; [destruct found|].
        apply Z.ltb_lt in since. simpl in since. pose proof (start_is_latest first others n found). lia.
      * intros all. inversion all as [|? ? early _]. simpl in early. lia.
Qed.

(** Promise 12: "A run with T = 1 has the loss ε/k." One visit and the noisy count 1 reach it. *)
Theorem record_can_cost_one_answer (most : Q) (k : positive) :
  (0 < most)%Q ->
  let A := fun _ =>
    {| place := 0; at_tick := 0; epsilon := most; answers := k; threshold := 1; complete := true |} in
  let D := fun _ => [{| person := 0; stamp := 0; last := 0 |}] in
  exists p p', run_chance same_answer (at_times A D) [Listed 0 1] p /\
    run_chance same_answer (at_times A (fun _ => [])) [Listed 0 1] p' /\
    (0 < p' /\ p = exp (Q2R (share most k)) * p')%R.
Proof.
  intros sign A D. assert (less : (share most k <= most)%Q).
  { unfold share. rewrite <- (Qmult_1_r most) at 2. apply Qmult_le_l; [assumption|]. unfold Qle. simpl. lia. }
  assert (unmarked : is_marked A [] = false).
  { unfold is_marked, may_answer. simpl. apply negb_false_iff, Qle_bool_iff. now rewrite Qplus_0_l. }
  assert (positive : (0 < Q2R (share most k))%R).
  { rewrite <- RMicromega.Q2R_0. apply Qlt_Rlt. unfold share. now apply Qmult_lt_0_compat. }
  assert (listed : forall n f g, (f + Z.of_nat n = 1)%Z ->
    Nat.eqb n g = if same_answer (step 1 0 false (Some f) (Z.of_nat g)) (Listed 0 1) then true else false).
  { intros n f g equal. unfold step, answer_sum. destruct (Nat.eqb_spec n g) as [<- | different].
    - rewrite equal. reflexivity.
    - destruct (Z.ltb_spec (f + Z.of_nat g) 1); [reflexivity|].
      destruct (same_answer _ _) as [same|]; [injection same; lia | reflexivity]. }
  exists (1 * weight (Q2R (share most k)) 0)%R, (1 * weight (Q2R (share most k)) 1)%R. split; [|split; [|split]].
  - apply next_answer; [constructor|]. refine (chance_of_same_event _ _ _ _ _ (chance_of_one_draw _ 0)).
    intros g. unfold at_times, decide. rewrite unmarked. now apply (listed 0%nat 1).
  - apply next_answer; [constructor|]. refine (chance_of_same_event _ _ _ _ _ (chance_of_one_draw _ 1)).
    intros g. unfold at_times, decide. rewrite unmarked. now apply (listed 1%nat 0).
  - rewrite Rmult_1_l. now apply weight_positive.
  - rewrite !Rmult_1_l, (weight_shift (Q2R (share most k)) 1 0). simpl. ring.
Qed.
