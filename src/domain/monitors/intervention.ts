/**
 * What an agent is told when a monitor fires: the failure, the evidence (which steps, what came back), what to do
 * instead. Written for a model that reads it as a system message. Pure; any thread.
 *
 * Quotes are the run's own words: cleaned, cut, in double quotes, and named as quotes, so that they read as evidence and
 * not as instructions.
 */

import type { StepDigest } from './digest.ts';
import type { Finding } from './finding.ts';
import type { MonitorName } from './names.ts';

/** `nudge`: change course. `stop`: the nudge did not help; end this line of work. */
export type InterventionLevel = 'nudge' | 'stop';

export interface Intervention {
  failure_type: MonitorName;
  /** For the model, at most INTERVENTION_CHARACTERS. */
  text: string;
  level: InterventionLevel;
}

/** Longest intervention text, in UTF-16 units (decision: 1,200 characters). */
export const INTERVENTION_CHARACTERS = 1200;

/** The words of one rule. */
interface Words {
  /** What is wrong, a sentence; `{n}` stands for the count, `{changes}` for so many changes. */
  what: string;
  /** How the earlier steps, `{steps}`, bear on it; otherwise they are named as what was done before. */
  lead?: string;
  /** What to do instead of it. */
  instead: string;
  /** What to do when that was said and nothing changed. */
  stop: string;
}

const SOURCES_STOP =
  'Do not make this kind of step again. Report what you know, what you could not find out, and why; or ask for what is missing.';

const WORDS: Record<MonitorName, Record<string, Words>> = {
  infinite_loop: {
    repeat: {
      what: 'You have made the same call {n} times and the result is the same each time',
      instead:
        'Do not make this call again: it will give the same result. Use what it already told you. If that is not enough, change something first (other arguments, another tool, another source, or the cause of the failure), and say in one sentence what will be different this time.',
      stop: 'Do not make this call again in this run. Work with what you have, or end the task and report what blocks it.',
    },
    return: {
      what: 'You keep coming back to the same call: {n} times in the last steps',
      instead:
        'Write down what the earlier results of this call said, then decide from them. Call it again only after you have changed something that it depends on.',
      stop: 'Stop coming back to this call. Decide from the results you have, or end the task and report what blocks it.',
    },
    stutter: {
      what: 'Your own text says the same sentence over and over',
      instead: 'Stop writing. Say once what you know, then take one concrete next step, or give the answer.',
      stop: 'Give your answer now in a few sentences, without repeating any of them.',
    },
  },
  semantic_loop: {
    paraphrase: {
      what: 'Your last steps ask for nearly the same thing in other words, and the results bring nothing new',
      instead:
        'Do not rephrase the request again. List in two lines what the earlier results did establish and what is still missing. Then take a different way to the missing part: another source or tool, a smaller question, or a direct address instead of a search. If two different ways fail, say so and go on with what you have.',
      stop: SOURCES_STOP,
    },
    variation: {
      what: 'You have tried {n} slightly different versions of the same call and each came to nothing',
      instead:
        'Small changes to the arguments will not help. Find out first what is there (list, search more broadly, read the error), then make one call that follows from it, or use another tool.',
      stop: SOURCES_STOP,
    },
    unmoved: {
      what: 'You have asked for {n} different things and got the very same result each time',
      instead:
        'The place you are asking does not move: what you do there has no effect. Say what the result shows, then leave it: go to another address, tool or source, or report that it cannot be got there.',
      stop: SOURCES_STOP,
    },
    talk: {
      what: 'You have told the same thing {n} times in a row and done nothing in between',
      instead:
        'Do not repeat it. Do what you announced, with a tool, and then tell the result. If you cannot do it, say so plainly and say what the other side can do.',
      stop: 'Stop repeating the message. Act, hand the matter over, or say plainly that it cannot be done.',
    },
    failures: {
      what: 'The last {n} steps all failed in the same way',
      instead:
        'Read the failure once more and name its cause. Fix the cause, or do the part of the task that does not depend on it. Do not try another variant before you can say why it would not fail in the same way.',
      stop: 'Stop trying. Report the failure, its likely cause and what would be needed to get past it.',
    },
    words: {
      what: 'You have had the same thought {n} times, word for word, and the results did not change',
      instead:
        'The plan in that thought does not work. Say what it assumes, check that assumption, and make a different plan.',
      stop: SOURCES_STOP,
    },
  },
  claim_contradiction: {
    success: {
      what: 'You say that it worked, but the last result is a failure',
      lead: '{steps} failed; then ',
      instead:
        'Take the statement back. Read that result, fix what it names, run the same check again, and report success only when the result shows it. If it cannot be fixed, report it as failed.',
      stop: 'Do not report success. Report the failure as the result of this task, with the last error.',
    },
    unmade: {
      what: 'You say that you have changed something, but none of your {n} calls so far changed anything: they only looked',
      lead: 'nothing up to {steps} changed anything; then ',
      instead:
        'Take the statement back. Make the change now with the tool that makes it, look at what it answers, and report what it shows. If you cannot or may not make it, say that it was not made.',
      stop: 'Do not report a change that no call has made. Make it, or report it as not made.',
    },
    invented: {
      what: 'Your call names a placeholder instead of a real thing, and it failed',
      instead:
        'Do not make up paths, names or keys. Look up the real one (list the folder, search, read the earlier results, ask), then make the call with it, word for word.',
      stop: 'Do not call anything whose name no result, task or person has given you. Say which name is missing.',
    },
    missing: {
      what: 'You speak of something as at hand, but the last result did not give it',
      lead: 'the result of {steps} did not give it; then ',
      instead:
        'Do not build on it. Say plainly that it was not found, then get it another way or go on without it, and name it as unknown in your answer.',
      stop: 'Do not use anything that no result has given you. Answer with what was found and name the rest as unknown.',
    },
    part: {
      what: 'You take up a list as if it were whole, but the result said that it is only a part of it',
      lead: 'the result of {steps} is only a part; then ',
      instead:
        'Get the rest first (scroll, the next page, a higher limit, a file instead of the screen), or say that you are working on a part and what that means for the answer.',
      stop: 'Get the rest of the list now, or state in your answer that it rests on a part of it.',
    },
    reversal: {
      what: 'You now say the opposite of what you said one step before, and no result came between that would change it',
      instead: 'Decide which of the two the results support, quote that result, and keep to it.',
      stop: 'Check the point with a tool before you say anything more about it.',
    },
  },
  verification_skip: {
    unchecked: {
      what: 'You call it done, but nothing has checked your last {changes}',
      lead: 'no check up to {steps}; then ',
      instead:
        'Before you hand in: run the test, build or program that would fail if the change were wrong, or read the changed thing back. Report what the check showed.',
      stop: 'Do not hand in yet. Run one check of your changes now, or state clearly in your answer that they are unchecked.',
    },
    blind: {
      what: 'This step is hard to undo, and nothing was looked up before it',
      instead:
        'Before any further change: read the present state (who asks, what exists, what the rules allow), confirm that it is the right object, then go on.',
      stop: 'Make no more changes until you have read the present state and confirmed what is asked for.',
    },
    unanswered: {
      what: 'You asked to verify something, the result did not speak of it, and you went on as if it had',
      lead: 'the check was asked for in {steps}; then ',
      instead:
        'Go back to that point: check it in another way, or carry it along as unverified and say so in your answer.',
      stop: 'Settle the open check now, or state in your answer that it was not verified.',
    },
  },
  silent_topic_drift: {
    opening: {
      what: 'Your first steps leave out most of what the task names',
      instead:
        'Read the task again and write down what it names (who, what, where, which source). Put those names into your next step word for word.',
      stop: 'Go back to the task as it was given and do its first part, with its own names, now.',
    },
    source: {
      what: 'The task says which source to use, and none of your steps has used or named it',
      instead:
        'Read the task again, name the source that it asks for, and go to that source now. If you need another one first, say what for. If the source cannot be reached, say so in your answer.',
      stop: 'Go to the source that the task names now, or state in your answer that it rests on other sources.',
    },
    unbegun: {
      what: 'The last {n} steps have not begun the task: hardly a word of it is in what they say or in what came back',
      instead:
        'Read the task again and say in one sentence which part of it comes first. Do that part now. If you need these steps for it, say what for.',
      stop: 'Leave this line of work. Do the first part of the task now, or report that you cannot begin it and why.',
    },
    strayed: {
      what: 'The last {n} steps have left the task: hardly a word of it is in what they say or in what came back',
      instead:
        'Say in one sentence how the present step serves the task. If it does not, leave it and go back to the last step that did. If the goal has changed, say so openly.',
      stop: 'Leave this line of work. Return to the task now, or report that you have left it and why.',
    },
  },
  cyclic_compression: {
    restated: {
      what: 'Your summary says what the one before it said: nothing was added between the two',
      instead:
        'Do not summarise again. Take the first open point of the summary and finish it. Keep exact results (names, paths, numbers, error messages) in the next summary, so that they need not be found again.',
      stop: 'Stop summarising. Finish one open point now, or end with the answer you have.',
    },
    redone: {
      what: 'Since your last summary you have done again what you had done before it ({n} calls)',
      instead:
        'The summary lost those results. Write them down exactly now (names, paths, numbers, decisions), mark those steps as done, and go on with the first step that is really open.',
      stop: 'Do not repeat earlier work. Go on with the first open step, or end with the answer you have.',
    },
  },
};

/** "step 4", "steps 4, 7 and 9". */
function nameSteps(steps: readonly number[]): string {
  if (steps.length === 1) return `step ${steps[0]}`;
  return `steps ${steps.slice(0, -1).join(', ')} and ${steps.at(-1)}`;
}

/** What this step did, in its own words. */
function quoteCall(digest: StepDigest): string {
  const action = digest.action === '' ? '' : ` ${digest.action}`;
  if (digest.input !== '') return `${action} "${digest.input}"`;
  return digest.thought !== '' && action === '' ? ` "${digest.thought}"` : action;
}

/** The sentence that holds the evidence: the earlier steps, this step, what came back. */
function writeEvidence(words: Words, finding: Finding, digest: StepDigest): string {
  const lead = words.lead ?? '{steps}, then ';
  const earlier = finding.steps.length === 0 ? '' : lead.replace('{steps}', nameSteps(finding.steps));
  const call = quoteCall(digest);
  const doing = call === '' ? '' : `:${call}`;
  // Words without a call have no result.
  const empty = digest.action === '' && digest.input === '' ? '' : ' The result was empty.';
  const outcome = digest.outcome === '' ? empty : ` The result now: "${digest.outcome}".`;
  return `Evidence: ${earlier}step ${digest.step_index}${doing}.${outcome}`;
}

/** The text for a monitor's finding at the step of `digest`. */
export function writeIntervention(
  monitor: MonitorName,
  level: InterventionLevel,
  finding: Finding,
  digest: StepDigest,
): Intervention {
  const words = WORDS[monitor][finding.kind]!;
  const changes = finding.count === 1 ? 'change' : `${finding.count} changes`;
  const what = words.what.replace('{n}', String(finding.count)).replace('{changes}', changes);
  const head =
    level === 'nudge'
      ? `Run monitor: ${monitor}.`
      : `Run monitor: ${monitor}, second notice, nothing has changed.`;
  const advice = level === 'nudge' ? `Instead: ${words.instead}` : `Stop: ${words.stop}`;
  const text = `${head} ${what}. ${writeEvidence(words, finding, digest)} ${advice}`;
  return { failure_type: monitor, level, text: text.slice(0, INTERVENTION_CHARACTERS) };
}
