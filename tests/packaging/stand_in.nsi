; A stand-in for the installed program: it writes down how it was called, and a tray runs until it is told to quit.
; In the folder STAND_IN: said (the calls), runs (while a tray runs), held, deaf, left (make a command fail).

Target amd64-unicode
SilentInstall silent
RequestExecutionLevel user
OutFile "${OUT}"
!include FileFunc.nsh
!include LogicLib.nsh

Function Say ; $8: the line
  FileOpen $1 "$9\said" a
  FileSeek $1 0 END
  FileWrite $1 "$8$\n"
  FileClose $1
FunctionEnd

Section
  ReadEnvStr $9 STAND_IN
  ${GetParameters} $0
  StrCpy $8 "$EXEFILE $0"
  Call Say
  ${If} $0 == "quit"
    ${If} ${FileExists} "$9\deaf"
      SetErrorLevel 1
    ${Else}
      Delete "$9\runs"
    ${EndIf}
  ${ElseIf} $0 == "release"
    ${If} ${FileExists} "$9\held"
      SetErrorLevel 1
    ${EndIf}
  ${ElseIf} $0 == "forget"
    Nop
  ${Else}
    FileOpen $1 "$9\runs" w
    FileClose $1
    ${DoWhile} ${FileExists} "$9\runs"
      Sleep 50
    ${Loop}
    StrCpy $8 "$EXEFILE ended"
    Call Say
  ${EndIf}
SectionEnd
