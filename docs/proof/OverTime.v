(** * Algorithm 3: one location at one tick

    The definitions are those of [monitor/privacy/over_time.py], with its names. [Extract.v] turns them into a
    program, which a test compares with that module. Each theorem proves the quoted sentence of docs/guarantees.md. *)

From Coq Require Import ZArith QArith Qreals Reals List Bool Lia Lra.
From Kernel Require Import Noise.
Import ListNotations.
Open Scope Z_scope.

(** ** Definitions *)

(** ε of the location, k, T, and W and F in slots. *)
Record rule := { epsilon : Q; answers : positive; threshold : Z; window : Z; max_lead : Z }.

Definition answer_epsilon (r : rule) : Q := epsilon r * (1 # answers r).
Definition lifetime (r : rule) : Z := window r + max_lead r.

(** A noisy answer that has spent ε, and the last tick at which its mark runs. *)
Record mark := { tick : Z; noisy_count : Z; spent : Q; until : Z }.

Inductive answer := Safe | Noisy (new : mark) | Paused (resumes_at : Z) | Unknown.

Definition lengthen (r : rule) (m : mark) : mark :=
  {| tick := tick m; noisy_count := noisy_count m; spent := spent m;
     until := Z.max (until m) (tick m + lifetime r - 1) |}.

Definition running (r : rule) (marks : list mark) (t : Z) : list mark :=
  filter (fun m => t <=? until m) (map (lengthen r) marks).

Fixpoint sum_spent (marks : list mark) : Q :=
  match marks with
  | [] => 0
  | m :: rest => spent m + sum_spent rest
  end.

(** If the ledger was lost, all ε counts as spent for W + F ticks. *)
Definition ledger_is_known (r : rule) (t : Z) (lost : option Z) : bool :=
  match lost with
  | None => true
  | Some l => l + lifetime r <=? t
  end.

(** At the tick of a mark, or before it, nothing was reported since. *)
Definition is_after (marks : list mark) (t : Z) : bool := forallb (fun m => tick m <? t) marks.

Definition may_answer (r : rule) (marks : list mark) (t : Z) (lost : option Z) : bool :=
  ledger_is_known r t lost && is_after marks t && Qle_bool (sum_spent (running r marks t) + answer_epsilon r) (epsilon r).

(** While marks run, a count has only what was stamped after the latest of their ticks. *)
Definition find_count_start (r : rule) (marks : list mark) (t : Z) : option Z :=
  match running r marks t with
  | [] => None
  | m :: rest => Some (fold_right Z.max (tick m) (map tick rest))
  end.

(** The first tick after [t] and all marks. *)
Definition first_after (marks : list mark) (t : Z) : Z := fold_right Z.max (t + 1) (map (fun m => tick m + 1) marks).

(** The earliest tick after [t] that may answer. Only the end of a mark can make it so. *)
Definition resume_tick (r : rule) (marks : list mark) (t : Z) (lost : option Z) : Z :=
  let after := first_after marks t in
  let first := match lost with None => after | Some l => Z.max after (l + lifetime r) end in
  let ends := first :: map (fun m => until m + 1) (running r marks first) in
  let last := fold_right Z.max first ends in
  fold_right (fun e earliest => if may_answer r marks e lost then Z.min e earliest else earliest) last ends.

(** The answer of a location that is not paused, if its count plus noise is [z]. *)
Definition answer_sum (r : rule) (t z : Z) : answer :=
  if z <? threshold r then Safe
  else Noisy {| tick := t; noisy_count := z; spent := answer_epsilon r; until := t + lifetime r - 1 |}.

(** [count] is [None] if the input is incomplete. *)
Definition step (r : rule) (marks : list mark) (t : Z) (count : option Z) (noise : Z) (lost : option Z) : answer :=
  if negb (may_answer r marks t lost) then Paused (resume_tick r marks t lost)
  else match count with
    | None => Unknown
    | Some f => answer_sum r t (f + noise)
    end.

(** ** What is published is true

    [f] is the count of the tick. *)

(** Promise 1: "If a tick with the count f answers `safe`, f < T." *)
Theorem safe_is_true r marks t f noise lost :
  0 <= noise -> step r marks t (Some f) noise lost = Safe -> f < threshold r.
Proof.
  unfold step, answer_sum. destruct (negb _); [discriminate|].
  destruct (Z.ltb_spec (f + noise) (threshold r)); [lia | discriminate].
Qed.

(** Promise 3: "A noisy count that is computed from the count f is at least f and at least T." *)
Theorem noisy_count_is_a_bound r marks t f noise lost new :
  0 <= noise -> step r marks t (Some f) noise lost = Noisy new ->
  f <= noisy_count new /\ threshold r <= noisy_count new.
Proof.
  unfold step, answer_sum. destruct (negb _); [discriminate|].
  destruct (Z.ltb_spec (f + noise) (threshold r)); [discriminate|].
  intros sign answered. injection answered as <-. simpl. lia.
Qed.

(** Promise 5: "With incomplete input the answer is `unknown` or `paused`." *)
Theorem incomplete_input_is_unknown_or_paused r marks t noise lost :
  step r marks t None noise lost = Unknown \/ step r marks t None noise lost = Paused (resume_tick r marks t lost).
Proof. unfold step. destruct (negb _); auto. Qed.

(** ** What one tick costs *)

Definition same_answer (a b : answer) : {a = b} + {a <> b}.
Proof. repeat decide equality. Defined.

Section One_tick.
  Variables (r : rule) (marks : list mark) (t : Z) (lost : option Z).
  Hypothesis positive : (0 < Q2R (answer_epsilon r))%R.

  (** The chance of the answer [a] at count [f]. *)
  Definition tick_chance (f : Z) (a : answer) : R -> Prop :=
    chance (Q2R (answer_epsilon r))
      (fun g => if same_answer (step r marks t (Some f) (Z.of_nat g) lost) a then true else false).

  (** An answer follows from the sum of the count and the noise. *)
  Definition gives (a : answer) (z : Z) : bool :=
    if same_answer (step r marks t (Some z) 0 lost) a then true else false.

  Lemma tick_chance_of_sum f a p : tick_chance f a p -> sum_chance (Q2R (answer_epsilon r)) f (gives a) p.
  Proof.
    apply chance_of_same_event. intros g. unfold gives, step. now rewrite Z.add_0_r.
  Qed.

  (** From D to D' a count is the same or falls by one. No answer is likelier under D than e^ε' times the chance under
      D', where ε' is the ε of an answer. *)
  Lemma tick_costs_epsilon f f' a p p' :
    f' <= f <= f' + 1 -> tick_chance f a p -> tick_chance f' a p' -> (p <= exp (Q2R (answer_epsilon r)) * p')%R.
  Proof.
    intros near chance_f chance_f'. apply tick_chance_of_sum in chance_f, chance_f'.
    eapply higher_count_costs_epsilon; eassumption.
  Qed.

  (** "safe" is at least as likely under D'. So is every answer except a number. *)
  Lemma safe_costs_nothing f f' a p p' :
    f' <= f -> (forall new, a <> Noisy new) -> tick_chance f a p -> tick_chance f' a p' -> (p <= p')%R.
  Proof.
    intros fewer no_number chance_f chance_f'. apply tick_chance_of_sum in chance_f, chance_f'.
    refine (higher_count_makes_safe_rarer _ positive f f' (gives a) p p' fewer _ chance_f chance_f'). intros z z' lower.
    unfold gives, step, answer_sum. rewrite !Z.add_0_r. destruct (negb _); [trivial|].
    destruct (Z.ltb_spec z (threshold r)) as [is_safe|].
    - now rewrite (proj2 (Z.ltb_lt z' (threshold r))) by lia.
    - destruct (same_answer _ a) as [<-|]; [now elim (no_number _ eq_refl) | discriminate].
  Qed.

  (** Promise 4: "With f people and f < T ≤ z, the probability of a noisy count of z or more is at most e^(-ε(z - T +
      1))." *)
  Theorem p_value_is_a_bound f z p :
    f < threshold r <= z ->
    chance (Q2R (answer_epsilon r)) (fun g =>
      match step r marks t (Some f) (Z.of_nat g) lost with Noisy new => z <=? noisy_count new | _ => false end) p ->
    (p <= exp (- Q2R (answer_epsilon r)) ^ Z.to_nat (z - threshold r + 1))%R.
  Proof.
    intros few chance_z. destruct (chance_exists _ positive (fun g => z <=? f + Z.of_nat g)) as [most chance_most].
    apply Rle_trans with most; [|eapply chance_of_false_alarm; eassumption]. rewrite <- (Rmult_1_l most).
    refine (aligned_chances _ positive 0 _ _ _ _ _ chance_z chance_most). intros g. unfold step, answer_sum.
    destruct (negb _); [discriminate|]. destruct (_ <? _); [discriminate|]. trivial.
  Qed.
End One_tick.
