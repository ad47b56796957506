(** * Runs: many answers, chosen by an adversary

    An adversary sees every answer, and may choose everything about the next decision except its noise: what is
    decided, with which counts, and whether it is "unknown". So a mechanism is a function of the answers so far,
    latest first. *)

From Coq Require Import Reals QArith Qreals List Lra ClassicalDedekindReals.
From Kernel Require Import Noise.
Open Scope R_scope.

Lemma exp_grows x y : x <= y -> exp x <= exp y.
Proof.
  intros le. replace y with (x + (y - x)) by ring. rewrite exp_plus.
  pose proof (exp_pos x). pose proof (exp_ineq1_le (y - x)).
  rewrite <- (Rmult_1_r (exp x)) at 1. apply Rmult_le_compat_l; lra.
Qed.

Lemma a_cost_only_helps p p' cost : p <= p' -> 0 <= p' -> (0 <= cost)%Q -> p <= exp (Q2R cost) * p'.
Proof.
  intros less sign cost_sign. apply Qle_Rle, exp_grows in cost_sign. rewrite RMicromega.Q2R_0, exp_0 in cost_sign.
  apply Rle_trans with (1 * p'); [lra|]. now apply Rmult_le_compat_r.
Qed.

Section Runs.
  Variable answer : Type.
  Variable same : forall a b : answer, {a = b} + {a <> b}.

  (** The ε of the next draw of noise, and the answer that each draw gives. *)
  Record mechanism := { noise_at : list answer -> Q; decide : list answer -> nat -> answer }.

  Definition answer_chance (m : mechanism) (before : list answer) (a : answer) (p : R) : Prop :=
    chance (Q2R (noise_at m before)) (fun g => if same (decide m before g) a then true else false) p.

  (** Each decision draws fresh noise, so the chance of a run is the product of the chances of its answers. *)
  Inductive run_chance (m : mechanism) : list answer -> R -> Prop :=
  | no_answer : run_chance m nil 1
  | next_answer before a p p' :
      run_chance m before p -> answer_chance m before a p' -> run_chance m (a :: before) (p * p').

  Fixpoint sum_costs (cost : list answer -> answer -> Q) (run : list answer) : Q :=
    match run with
    | nil => 0
    | a :: before => sum_costs cost before + cost before a
    end.

  (** An answer is possible if some draw of noise gives it. A run is possible if all its answers are. *)
  Fixpoint possible (m : mechanism) (run : list answer) : Prop :=
    match run with
    | nil => True
    | a :: before => possible m before /\ exists g, decide m before g = a
    end.

  Definition draws_noise (m : mechanism) : Prop := forall before, 0 < Q2R (noise_at m before).

  Lemma run_chance_is_not_negative m run p : draws_noise m -> run_chance m run p -> 0 <= p.
  Proof.
    intros positive. induction 1 as [|before a p p' _ IH chance_a]; [lra|].
    apply Rmult_le_pos; [assumption|]. eapply chance_is_not_negative; [apply positive | exact chance_a].
  Qed.

  (** Every run has a chance, so no theorem about runs is empty. *)
  Lemma run_chance_exists m run : draws_noise m -> exists p, run_chance m run p.
  Proof.
    intros positive. induction run as [|a before [p chances]]; [exists 1; constructor|].
    destruct (chance_exists _ (positive before) (fun g => if same (decide m before g) a then true else false)).
    eexists. econstructor; eassumption.
  Qed.

  Variables m m' : mechanism.
  Hypothesis positive : draws_noise m.
  Hypothesis positive' : draws_noise m'.

  Lemma impossible_runs run p : run_chance m run p -> p = 0 \/ possible m run.
  Proof.
    induction 1 as [|before a p p' _ IH chance_a]; [now right|].
    destruct (sig_forall_dec (fun g => decide m before g <> a)) as [[g gives] | never].
    - intros g. destruct (same (decide m before g) a); [now right | now left].
    - destruct IH as [-> | before_possible]; [left; ring|]. right. split; [assumption|].
      exists g. now destruct (same (decide m before g) a).
    - left. replace p' with 0; [ring|]. symmetry. eapply impossible_chance; [apply positive | | exact chance_a].
      intros g. simpl. destruct (same (decide m before g) a); [now elim (never g) | reflexivity].
  Qed.

  (** Costs add up: if no answer is likelier with [m] than with [m'] by more than e^cost, no run is by more than
      e^(the sum of the costs of its answers). *)
  Lemma costs_add_up cost :
    (forall before a p p', answer_chance m before a p -> answer_chance m' before a p' ->
      p <= exp (Q2R (cost before a)) * p') ->
    forall run p p', run_chance m run p -> run_chance m' run p' -> p <= exp (Q2R (sum_costs cost run)) * p'.
  Proof.
    intros each run. induction run as [|a before IH]; intros p p' chances chances'.
    - inversion chances. inversion chances'. simpl. rewrite RMicromega.Q2R_0, exp_0. lra.
    - inversion chances as [|? ? p1 p2 run1 last]. inversion chances' as [|? ? p1' p2' run1' last']. subst.
      simpl. rewrite Q2R_plus, exp_plus.
      replace (_ * _ * (p1' * p2')) with
        ((exp (Q2R (sum_costs cost before)) * p1') * (exp (Q2R (cost before a)) * p2')) by ring.
      apply Rmult_le_compat; [| |now apply IH | now apply (each before a)].
      + now apply (run_chance_is_not_negative m before).
      + eapply chance_is_not_negative; [apply positive | exact last].
  Qed.

  (** So if the costs of a run add up to [epsilon] at most, or it is not possible, its loss is [epsilon] at most. So is
      that of every set of such runs, because its chance is the sum of theirs. *)
  Lemma loss_is_at_most cost epsilon run :
    (forall before a p p', answer_chance m before a p -> answer_chance m' before a p' ->
      p <= exp (Q2R (cost before a)) * p') ->
    (possible m run -> (sum_costs cost run <= epsilon)%Q) ->
    forall p p', run_chance m run p -> run_chance m' run p' -> p <= exp (Q2R epsilon) * p'.
  Proof.
    intros each bounded p p' chances chances'.
    pose proof (run_chance_is_not_negative m' run p' positive' chances') as p'_sign.
    pose proof (exp_pos (Q2R epsilon)) as factor.
    destruct (impossible_runs run p chances) as [-> | run_possible]; [apply Rmult_le_pos; lra|].
    apply Rle_trans with (exp (Q2R (sum_costs cost run)) * p'); [now apply (costs_add_up cost)|].
    apply Rmult_le_compat_r; [assumption|]. apply exp_grows, Qle_Rle. now apply bounded.
  Qed.
End Runs.

Arguments noise_at {answer}.
Arguments decide {answer}.
Arguments answer_chance {answer}.
Arguments run_chance {answer}.
Arguments sum_costs {answer}.
Arguments possible {answer}.
Arguments draws_noise {answer}.
Arguments costs_add_up {answer}.
Arguments loss_is_at_most {answer}.
