"""decide(run, input): what does this make true? Judged once, live; replay folds the facts instead.

Begin with `decide`: who judges which input. A run is in one state, and there in one phase
(`Visit.phase`). The phase says what the run is owed (`core/pending.py`, from the state alone) and
which input ends it; what follows by itself is told in the same decision, by
`states.run_to_completion`.

===========  ==========================================  =======================================
phase        what the run is owed                        what ends it, and what follows
===========  ==========================================  =======================================
new          nothing                                     `Start`: leaving, or waiting for the input
waiting      nothing: it waits for words                 `UserSaid`: the words join, then pre
pre          the state's pre_handler                     `HandlerReturned`: the state's work
turn         a model request; where the reply has calls, `ModelReplied` without calls: post.
             a look at the next one, then the call       `CallReviewed`, `ToolFinished`: the next
             (nothing for one a person is asked about)   call, or the next request
call         the state's own tool call, looked at first  `CallReviewed`, `ToolFinished`: post
asking       nothing but a deadline                      `UserSaid`, `TimerRang`: post
resting      a timer                                     `TimerRang`: post
branches     what each branch is owed                    the last branch to end: joined, post
retrying     a timer                                     `TimerRang`: the state's work again
post         the state's post_handler                    `HandlerReturned`: transition
transition   the state's transition_handler              `HandlerReturned`: leaving
leaving      nothing                                     in the same decision: the next state, ended
halting      the calls that are being stopped softly     `ToolFinished` of the last: what the halt
                                                         leads to (words, hold, stop, trouble)
held         nothing: it was stopped                     `UserSaid`: resume. `Resume`: where it was
ended        nothing                                     nothing
===========  ==========================================  =======================================

Beside each phase a timeout of the state may be owed. A phase that has nothing to do (no pre_handler,
no agent) is passed over. Words that interrupt end every phase with work in it: halting, at once.

An input about an effect has its key. If nobody is owed that key any more the input makes nothing true:
so a late reply changes nothing, however late it comes, and halting needs no code to drop results.

The hops, from `decide.judged`, which finds the judge of an input in the table `JUDGES`:

* **A line.** `steering.said` keeps it under its id (the same one again changes nothing) and looks
  whether the branch it is for is still there. An answer: `steering._answer` closes the question and
  ends the call or state that asked. Else `steering._unasked` asks the state's policy; to interrupt is
  `steering.halt` (the halting list), and once nothing is being stopped `steering.finish_halt` hears
  the words through `transitions.resume`, which goes to the state by `transitions.enter`.
* **A reply.** `decide._model_replied` gives its calls their ids and says whether it is final or unusable.
  `decide._begin_calls` takes the calls in the model's order, `calls.begin_call` each: a question to the
  person, or a look that is owed first. Without calls the turn is over: the fold moves on to post,
  and `states.run_to_completion` passes over what the state does not have, up to `transitions.leave`.
* **An approval.** The look at a call comes back to `calls.reviewed`: it is called, refused, or
  parked behind a question (`calls._ask_about`). The person's key comes to `decide._approved`: a yes is
  `decide._approve`, which makes the call, and for the run `decide._allow_for_run`, which makes the others
  it covers; a no closes the call with what the person said.
* **A recovery.** `decide._recovered` is told that nothing in flight is any more. `decide._ask_of_calls`:
  of a `once` call that was running nobody knows what became of it: `steering.ask_outcome` asks a person,
  nothing repeats it. `steering.keep_shown` keeps what the reader saw of replies, by the facts of Esc or
  of steering. All else needs nothing: it is owed again, because the state still says so.

`steering` judges words and halts. `transitions` says where a run goes. `states` begins the work of a
state, takes its end and goes on with what needs nobody. `calls` are an agent's tool calls, `timers` the
waits, `budgets` what a run may use, `compacting` the summary that takes the place of older turns. All
add facts to a `transaction.Story`, which folds each at once, so that the next line of code sees the run
after it. A branch is a run within the run: `transaction.BranchStory` tells its facts with its name.
"""
