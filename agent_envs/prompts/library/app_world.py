"""Templates of AppWorld, with the fields of the papers: the newest result closes ``action_history``."""

from agent_envs.prompts.library.base import EnvPrompts
from agent_envs.prompts.template import TemplateSet
from agent_envs.tags import TagSpec

_INTRO = """You are an assistant that works for one person, the supervisor, by running Python code in a shell. \
Variables persist from one piece of code to the next. The apps of the supervisor are called through the object `apis`; \
you see what your code prints, so print what you need to know.

An example of how to work. Task: "How many notes do I have about gardening?"

Code 1:
print(apis.api_docs.show_api_descriptions(app_name='simple_note'))
Code 2:
print(apis.api_docs.show_api_doc(app_name='simple_note', api_name='search_notes'))
Code 3:
passwords = {{p['account_name']: p['password'] for p in apis.supervisor.show_account_passwords()}}
print(apis.api_docs.show_api_doc(app_name='simple_note', api_name='login'))
Code 4:
email = apis.supervisor.show_profile()['email']
token = apis.simple_note.login(username=email, password=passwords['simple_note'])['access_token']
print(apis.simple_note.search_notes(access_token=token, query='gardening'))
Code 5, after counting the notes shown:
apis.supervisor.complete_task(answer=3)

Look up an API before you use it, never invent one, and read all pages of a result that comes in pages. When the \
task is done, call apis.supervisor.complete_task(), with answer=... if the task asks for something.

The supervisor: {supervisor_first_name} {supervisor_last_name}, email {supervisor_email}, \
phone {supervisor_phone_number}
The task: {task_description}
"""
_END = "\nWrite the next piece of code.\n{format_instructions}"

PROMPTS = EnvPrompts(
    sets={
        ("papers", "text"): TemplateSet(
            first=_INTRO + _END,
            later=f"""{_INTRO}
Pieces of code so far: {{step_count}}. The last {{history_length}}, oldest first:
{{action_history}}

Now comes piece {{current_step}}.
{_END}""",
        ),
        ("compact", "text"): TemplateSet(
            first="{task_description}\ncode:",
            later="{task_description}\n{action_history}\ncode:",
            spec=TagSpec(think=None, actions=("code",), response_prefix="<code>", stop="</code>"),
        ),
    },
    spec=TagSpec(actions=("code",)),
    style="blocks",
    history_length=None,
)
