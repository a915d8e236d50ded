/**
 * The universal patterns (tier e3) that ship with the product: how agents get stuck, whatever they work on, and what
 * helps them on. Data; any thread.
 */

import type { MonitorName } from './monitors/names.ts';
import type { PatternDraft } from './patterns/drafts.ts';

function lesson(
  failure_type: MonitorName | '',
  situation: string,
  dead_ends: readonly string[],
  unlock: string,
): PatternDraft {
  return {
    situation,
    dead_ends: dead_ends.map((line) => `- ${line}`).join('\n'),
    unlock,
    model: '',
    failure_type,
  };
}

/** Every situation is one sentence or two in the words in which a task would be described. */
export const STARTER_PATTERNS: readonly PatternDraft[] = [
  // Loops
  lesson(
    'infinite_loop',
    'The same command or tool call fails again and again with the same error, and the agent keeps sending it unchanged.',
    [
      'sending the call once more in the hope that it works this time',
      'changing only quotes, white space or the order of arguments',
    ],
    'Stop after the second identical failure. Read the error word by word, name the one assumption that it contradicts, and check that assumption with a different, smaller call before anything is sent again. Only timeouts, rate limits and 5xx answers deserve a plain retry, with a pause before it.',
  ),
  lesson(
    'infinite_loop',
    'The agent alternates between two states: it makes a change, sees a failure, undoes it, sees the first failure, and makes the change again.',
    ['flipping between two fixes, each of which breaks what the other repaired'],
    'Write both failures down next to each other: they are two constraints that one solution must satisfy together. Look for the place where both come from (a shared function, a config, a caller) and make the change there.',
  ),
  lesson(
    'semantic_loop',
    'Searching for information with query after query that say the same in other words, and getting the same unhelpful results.',
    [
      'rephrasing the question with synonyms',
      'asking for the whole answer at once instead of for one fact that leads to it',
    ],
    'Change the kind of look-up, not its wording: search for an entity that the answer must mention, go to the primary source (official site, documentation, repository, filing), use its own search or index, or take the question apart and look for one intermediate fact at a time.',
  ),
  lesson(
    'semantic_loop',
    'Reading one file or page after another without deciding anything; the context fills up and the task does not move.',
    ['opening ever more files to be sure', 'reading whole files of which a few lines matter'],
    'State what single fact is still missing and what will be done when it is known. Search for that fact by name, read only around the hits, and act on the best current understanding; a small reversible attempt shows more than the next ten files.',
  ),
  lesson(
    'semantic_loop',
    'Polling for a long job, a deployment or a build to finish, with check after check in quick succession.',
    ['asking for the status again at once', 'starting the job a second time because it seems to hang'],
    'Wait longer between checks (double the pause each time), look at the log for signs of progress instead of at the status alone, and set a limit after which the job counts as hung. Do something else that does not depend on it meanwhile.',
  ),
  lesson(
    'cyclic_compression',
    'After the context was summarized, the agent redoes work that it had finished, because the summary does not say that it was done.',
    ['starting again from the beginning of the plan', 'trusting memory about which files were changed'],
    'Rebuild the state from the world instead of from memory: version control status and diff, files on disk, test results, records of the system. Keep a short list of finished and open items in a file or at the top of the notes, and update it before each summary.',
  ),
  lesson(
    'cyclic_compression',
    'Thoughts get longer and repeat the same plan in each step, while the actions do not follow from it.',
    [
      'restating the whole plan before each action',
      'making the plan finer instead of carrying out its first item',
    ],
    'Say only what changed since the last step: what was expected, what came, what follows. Then do the smallest next action. If nothing changed, the next action must be a different one.',
  ),
  // Verification
  lesson(
    'verification_skip',
    'A bug fix or a feature was written and is about to be reported as done without having been run.',
    ['concluding from reading the diff that it works', 'relying on the fact that it compiles'],
    'Run the very thing that failed before: the failing test, the reproduction script, the command from the issue. Without one, write the smallest one first and see it fail without the change. Report what was run and what it printed.',
  ),
  lesson(
    'verification_skip',
    'An edit tool answered without an error, but the file does not contain the intended change or contains it in the wrong place.',
    ['going on to the next file because the tool reported success'],
    'Look at the changed region after each edit, with some lines around it, and check indentation and duplicates. When the replacement target occurs more than once, include enough surrounding lines to make it unique.',
  ),
  lesson(
    'verification_skip',
    'Before something irreversible in customer service (refund, cancellation, change of address or payment), the identity of the user or the consent to the details is missing.',
    ['acting on a name or an order number alone', 'taking an earlier yes for consent to changed details'],
    'Authenticate first by the means that the policy names, look the record up with a tool instead of trusting what was said, list the exact action with amounts and items, and act only after an explicit yes to that list.',
  ),
  lesson(
    'verification_skip',
    'A number, a date or a total is reported to a user without having been computed or looked up.',
    ['adding prices in the head', 'quoting an amount from an earlier, different offer'],
    'Use the calculator or the lookup tool for every figure that is told to a user, from the current records, and repeat the inputs beside the result so that a mistake shows.',
  ),
  lesson(
    'verification_skip',
    'Tests pass suspiciously fast or in suspiciously small numbers after a change to the code.',
    ['reporting green without looking at how many tests ran', 'running a filter that matches nothing'],
    'Look at the count of tests and at the names of those that cover the change. Break the new code on purpose for a moment: a test must fail. Zero tests run, skipped suites and cached results are no proof.',
  ),
  // Claims against evidence
  lesson(
    'claim_contradiction',
    'The agent reports success although the last tool result was an error, empty, or about something else.',
    ['reading the expected result into the output', 'taking an exit without a message for success'],
    'Quote the line of the tool output that shows the claim, word for word. If no line can be quoted, the claim is not shown: say so, and run the check that would show it.',
  ),
  lesson(
    'claim_contradiction',
    'Details that no tool returned appear in the answer: a file name, a function, a policy, a price, a citation.',
    ['filling a gap with what is usually the case', 'inventing an identifier of the right form'],
    'Trace every name and number in the answer back to an observation or to the task. What cannot be traced is looked up or left out, and a gap is named as a gap.',
  ),
  lesson(
    'claim_contradiction',
    'A warning or a partial failure inside a long output was overlooked, and the next steps build on a half-finished result.',
    ['reading only the last line', 'treating warnings as noise'],
    'Search the output for error, warning, failed, skipped and denied before moving on, and compare counts: how many items were asked for, how many were processed. Deal with the difference first.',
  ),
  // Drift
  lesson(
    'silent_topic_drift',
    'While fixing one problem the agent found another one, and now works on that, though it was not asked to.',
    ['refactoring code that is merely ugly', 'upgrading dependencies on the way'],
    'Note the other problem for the report and go back to the request. Reread the task in its own words and name how the next action serves it; do nothing that does not serve it.',
  ),
  lesson(
    'silent_topic_drift',
    'The user asked for two or three things and the agent is about to end after the first.',
    ['closing with a summary of the one thing that was done'],
    'Before ending, list every request of the conversation, later ones too, with its state: done with evidence, refused with the reason, or open. Work on the open ones, or ask about them.',
  ),
  lesson(
    'silent_topic_drift',
    'The task names a constraint (do not change the interface, keep the format, only this folder), and the current approach breaks it.',
    ['finishing first and repairing the constraint later', 'loosening the constraint silently'],
    'Treat constraints as tests: write them down at the start and check the diff or the draft against each before it is handed in. If one makes the task impossible, say so and ask instead of choosing for the user.',
  ),
  // Wrong place
  lesson(
    '',
    'Edits have no effect: the program behaves exactly as before, whatever is changed in the source.',
    ['making the change bigger', 'adding more logging to the file that was edited'],
    'Prove first that the edited file is the one that runs: print its resolved path or break it on purpose. Usual causes: an installed copy instead of the checkout, a build or bundle that was not redone, a cache, another branch or container, a second definition of the same name.',
  ),
  lesson(
    '',
    'A file or a module cannot be found although it seems to exist.',
    ['creating an empty file of that name', 'adding path after path to the search path'],
    'Print the working directory and list the folder. Compare letter case, extension and hidden characters; resolve the path against the directory of the script, not of the shell. For a module, ask the interpreter which one it is and where it looks.',
  ),
  lesson(
    '',
    'A search in the code base finds nothing, although the feature is there.',
    ['concluding that it does not exist and writing it anew'],
    'Search for what the user sees (a label, a route, an error message), for parts of the name and for other spellings, and include generated, ignored and vendored folders. Follow the call from the entry point down.',
  ),
  lesson(
    '',
    'A replacement or patch does not apply: the text to replace was not found, or it is there several times.',
    ['retyping the old text from memory', 'replacing a whole file to change a line'],
    'Read the file again right before the edit and copy the target from what it says now, tabs and trailing spaces too. Choose the shortest piece that is unique. After a formatter or a previous edit, line numbers and white space have changed.',
  ),
  lesson(
    '',
    'An edit was refused for a syntax or indentation error in a language where white space counts.',
    ['sending the same lines again', 'fixing the error with another edit on top of a broken file'],
    'Look at the lines around the target with their exact indentation, write the new lines with the full leading white space of their block, and run the parser or linter on the file before going on.',
  ),
  // Errors that are read wrongly
  lesson(
    '',
    'A stack trace points into a library, and the agent begins to change the library or to catch the exception.',
    ['wrapping the call in a try that swallows the error', 'editing installed packages'],
    'Go up the trace to the first frame in your own code and print the arguments that it passes. A widely used library usually fails because of its input: a wrong type, a missing option, an unsupported version.',
  ),
  lesson(
    '',
    'A long output of a build or a test run ends in many errors, and the agent works on the last one.',
    ['fixing errors from the bottom up', 'silencing each message on its own'],
    'Find the first error: most of the others follow from it. Fix that one alone and run again; use the option that stops at the first failure.',
  ),
  lesson(
    '',
    'A test fails only now and then, or only when the whole suite runs.',
    ['running it again until it passes', 'raising a timeout or adding a sleep'],
    'Look for what is shared: time, order, random numbers, ports, files, global state, leftovers of another test. Run it alone, then with its predecessor, then with a fixed seed. Wait for a condition instead of for a time.',
  ),
  lesson(
    '',
    'After a fix one test passes and others that passed before now fail.',
    ['changing the expectation of the other tests', 'special-casing the input of the one test'],
    'Read what the broken tests say about the intended behaviour: together they are the specification. Make the fix narrower, or move it to where the cases differ. Change an expectation only where the task says that the behaviour should change.',
  ),
  // Dependencies and environment
  lesson(
    '',
    'Installing a dependency fails with a version conflict, or an import breaks after an upgrade.',
    ['upgrading everything', 'forcing the installation past the resolver'],
    'Read which two requirements exclude each other and since when. Pin the one version that both accept, or take the release from before the break; look into the changelog for the renamed function. Work in a clean environment and keep the lock file.',
  ),
  lesson(
    '',
    'A command works in one shell and not in the other: not found, a different version, other variables.',
    ['installing it a second time', 'hard-coding a path'],
    'Compare what both resolve to: which, the version, PATH, the active virtual environment, login against non-login shell, the user. Call the interpreter of the project explicitly and run tools through it.',
  ),
  lesson(
    '',
    'A native module or a compiled dependency fails to build for want of headers, a compiler or a matching platform.',
    ['reinstalling the package again', 'searching for the last line of the log'],
    'Find the first missing header or tool in the log and install its development package, or take a release that ships a binary for this platform and runtime version. Check architecture and libc before anything is built.',
  ),
  lesson(
    '',
    'The network is not reachable from the sandbox, and a download or an API call hangs or is refused.',
    ['trying mirror after mirror', 'waiting for the full timeout each time'],
    'Test reachability once with a short timeout. Look for what is already there (caches, vendored copies, preinstalled tools) and do the part of the task that needs no network; say plainly which part needs it.',
  ),
  lesson(
    '',
    'A port, a lock file or a process of an earlier attempt is in the way: address in use, database locked, resource busy.',
    ['killing processes by a broad name', 'changing the port in the code'],
    'Find out who holds it and whether that is a leftover of this very run; end exactly that process by its id and wait for its exit. Start services on a free port chosen by the system and stop them when done.',
  ),
  lesson(
    '',
    'Permission denied, unauthorized or forbidden when accessing a file, an API or a repository.',
    ['retrying with more privileges', 'loosening the permissions of a whole folder'],
    'Tell the cases apart: no credential, a wrong or expired one, or a right one without the permission. Look at which identity the call really uses and at the scope that it needs. A refusal by policy is an answer: report it, do not work around it.',
  ),
  // Calls to services
  lesson(
    '',
    'An API call is rejected as invalid although the arguments look right.',
    ['changing several arguments at a time', 'guessing parameter names'],
    'Read the schema or the documentation of exactly this version, then send the smallest valid request and add one argument at a time. Check types (number against string), required fields, enumerated values, the date format, and the content type.',
  ),
  lesson(
    '',
    'A tool says that an identifier was not found: an order, a user, a payment method, a document.',
    ['asking the user for the same identifier again', 'trying variants of it by guessing'],
    'Look the identifier up in the record that owns it (the profile lists the payment methods, the account its orders) and use it exactly as written there, prefix and case included. What people say out loud (the last four digits) is not the key of the system.',
  ),
  lesson(
    '',
    'Only part of the results came back from a list or search API, and the answer is computed from that part.',
    ['raising the page size beyond its limit', 'assuming that the first page holds the newest or all'],
    'Look for a cursor, a next link, a total or a has-more mark, and fetch until it says that there is no more. Compare the number of items with the total before anything is concluded.',
  ),
  lesson(
    '',
    'Requests fail with rate limits, overload or timeouts.',
    ['retrying at once and in parallel', 'giving up at the first refusal'],
    'Honour Retry-After, otherwise wait with exponential pauses and some randomness, and lower the concurrency. Make the request smaller (fewer fields, shorter range) when it times out. Make sure that a retried write cannot happen twice.',
  ),
  lesson(
    '',
    'A write request timed out, and it is not known whether it happened.',
    ['sending it again straight away', 'assuming that it failed'],
    'Read the state back first: list or fetch what would have been created. Use an idempotency key where there is one; send again only what is certainly absent.',
  ),
  // Data
  lesson(
    '',
    'Text comes out as garbage or a parser stops at a strange byte: umlauts, emoji, a mark at the beginning of the file.',
    ['deleting the characters that do not fit', 'trying encodings at random'],
    'Look at the raw bytes at the place of the failure. Decide the encoding from a byte order mark, a header or the bytes themselves, decode once at the edge, use UTF-8 inside, and write the encoding out explicitly.',
  ),
  lesson(
    '',
    'Times are off by some hours or a day, or something falls into the wrong day or month.',
    ['adding or subtracting the difference by hand'],
    'Find out for each time whether it is UTC, local or without a zone. Convert once at the edge, compute in UTC, use a zone name and not an offset where daylight saving matters, and test with a date on the other side of the change.',
  ),
  lesson(
    '',
    'A parser or a regular expression works on the example and fails on real data.',
    ['adding a special case for each line that fails'],
    'Look at a sample of the real data first: quotes, commas inside fields, empty values, several lines, other line ends. Use the parser that exists for the format (CSV, JSON, HTML, dates) instead of an expression, and count the rows that were dropped.',
  ),
  lesson(
    '',
    'A computed result is wrong by a small amount, or one element is missing at the edge of a range.',
    ['adding one until the example fits'],
    'Write down whether each bound is included and whether counting begins at 0 or 1, and check by hand on the smallest cases: none, one, two, the last. For money use whole cents or decimals, never binary fractions.',
  ),
  // Research
  lesson(
    '',
    'A web page does not show what it should: a consent banner, a login, an empty body, a download instead of a text.',
    ['scrolling and clicking on', 'loading the same page again'],
    'Say what the page really shows. Go to another copy of the same information: a text or print version, an API, the PDF file opened with a document tool at its real path, an archive, another publisher. Two attempts at a source are enough.',
  ),
  lesson(
    'semantic_loop',
    'A question needs several facts that depend on each other, and searching for the whole question finds nothing.',
    ['putting the whole question into the search box', 'guessing the entity in the middle'],
    'Write the chain down (the person, then the band, then the year), find and confirm the first link from a source, and use its exact name to search for the next. Check at the end that every condition of the question holds for the answer.',
  ),
  lesson(
    '',
    'A look-up by name returns no page or a different thing of the same name.',
    ['adding more words of the question to the name', 'taking the first hit'],
    'Use the exact title among the suggestions, with its addition in brackets (film, band, magazine) that fits the question. Search one entity at a time, and check with one known fact that it is the right one.',
  ),
  // Interaction and planning
  lesson(
    '',
    'The request is ambiguous in a way that changes what has to be done.',
    ['choosing silently', 'asking many questions before anything is done'],
    'Look first whether files, records or the policy settle it. If not, and the choices differ in a costly or irreversible way, ask one precise question with the options; otherwise take the reading that is easiest to undo and say so.',
  ),
  lesson(
    '',
    'A user asks for something that the policy or the tools do not allow.',
    ['trying the forbidden call to see what happens', 'promising an exception', 'refusing everything'],
    'Say clearly which part is not possible and why, do the parts that are, and offer the nearest allowed alternative. Do not call tools for what will be refused, and hand over to a person only where the policy says so.',
  ),
  lesson(
    '',
    'A delegated step came back with an answer that does not contain what was asked for.',
    ['passing the same instruction on once more', 'going on as if it had been answered'],
    'Compare the answer with the question in one sentence: what is there, what is missing. Ask again for the missing piece alone, with the file, address or value that was already found, or use another tool for it.',
  ),
];
